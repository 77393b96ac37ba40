// The specification of GatedDelta: plain loops in double on the tokens of one sequence.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/gated_delta.h"

namespace quire::reference {

// What a sequence keeps; zeros at its beginning.
struct GatedDeltaState {
  std::vector<double> conv;       // [conv_width - 1, num_channels]
  std::vector<double> recurrent;  // [num_v_heads, k_head_dim, v_head_dim]

  explicit GatedDeltaState(const GatedDeltaShape& shape)
      : conv((shape.conv_width - 1) * shape.num_channels()),
        recurrent(shape.v_size() * shape.k_head_dim) {}
};

struct GatedDeltaWeights {
  std::vector<float> conv, a_log, dt_bias, norm;  // as in GatedDeltaArgs
  float norm_eps = 1e-6f;
};

inline double Sigmoid(double x) { return 1.0 / (1.0 + std::exp(-x)); }

// The convolution of the newest input u [num_channels], which becomes the newest one of the state.
inline std::vector<double> Convolve(const GatedDeltaShape& shape, const GatedDeltaWeights& weights,
                                    const float* u, std::vector<double>* state) {
  const int64_t num_channels = shape.num_channels();
  state->insert(state->end(), u, u + num_channels);
  std::vector<double> y(num_channels);
  for (int64_t c = 0; c < num_channels; ++c) {
    double sum = 0;
    for (int64_t j = 0; j < shape.conv_width; ++j) {
      sum += weights.conv[c * shape.conv_width + j] * (*state)[j * num_channels + c];
    }
    y[c] = sum * Sigmoid(sum);
  }
  state->erase(state->begin(), state->begin() + num_channels);
  return y;
}

// One token of a v head: moves its matrix S [k_head_dim, v_head_dim] on and returns S^T q.
inline std::vector<double> DeltaRule(const GatedDeltaShape& shape, const double* q, const double* k,
                                     const double* v, double g, double beta, double* s) {
  const int64_t dk = shape.k_head_dim, dv = shape.v_head_dim;
  double q_squares = 1e-6, k_squares = 1e-6;
  for (int64_t i = 0; i < dk; ++i) {
    q_squares += q[i] * q[i];
    k_squares += k[i] * k[i];
  }
  const double q_scale = 1.0 / std::sqrt(q_squares * static_cast<double>(dk));
  const double k_scale = 1.0 / std::sqrt(k_squares);
  std::vector<double> o(dv);
  for (int64_t j = 0; j < dv; ++j) {
    double recalled = 0;
    for (int64_t i = 0; i < dk; ++i) {
      s[i * dv + j] *= std::exp(g);
      recalled += s[i * dv + j] * k[i] * k_scale;
    }
    for (int64_t i = 0; i < dk; ++i) {
      s[i * dv + j] += k[i] * k_scale * beta * (v[j] - recalled);
      o[j] += s[i * dv + j] * q[i] * q_scale;
    }
  }
  return o;
}

// The tokens' outputs [num_tokens, num_v_heads * v_head_dim]; the state moves on. `round` is how
// the convolution's results are rounded: to the activations' dtype.
template <typename Round>
std::vector<double> GatedDelta(const GatedDeltaShape& shape, const GatedDeltaWeights& weights,
                               const std::vector<float>& qkvz, const std::vector<float>& ba,
                               const Round& round, GatedDeltaState* state) {
  const int64_t dk = shape.k_head_dim, dv = shape.v_head_dim, num_heads = shape.num_v_heads;
  const int64_t row_size = shape.num_channels() + shape.v_size();
  const auto num_tokens = static_cast<int64_t>(qkvz.size()) / row_size;
  std::vector<double> out;
  for (int64_t token = 0; token < num_tokens; ++token) {
    const float* u = qkvz.data() + token * row_size;
    const float* b = ba.data() + token * 2 * num_heads;
    std::vector<double> y = Convolve(shape, weights, u, &state->conv);
    for (double& value : y) value = round(value);
    for (int64_t h = 0; h < num_heads; ++h) {
      const int64_t k_head = h / (num_heads / shape.num_k_heads);
      const double a = b[num_heads + h] + weights.dt_bias[h];
      const double softplus = a > 0 ? a + std::log1p(std::exp(-a)) : std::log1p(std::exp(a));
      const std::vector<double> o =
          DeltaRule(shape, &y[k_head * dk], &y[(shape.num_k_heads + k_head) * dk],
                    &y[2 * shape.num_k_heads * dk + h * dv], -std::exp(weights.a_log[h]) * softplus,
                    Sigmoid(b[h]), &state->recurrent[h * dk * dv]);
      double squares = 0;
      for (double value : o) squares += value * value;
      const double scale = 1.0 / std::sqrt(squares / static_cast<double>(dv) + weights.norm_eps);
      const float* z = u + shape.num_channels() + h * dv;
      for (int64_t j = 0; j < dv; ++j) {
        out.push_back(o[j] * scale * weights.norm[j] * z[j] * Sigmoid(z[j]));
      }
    }
  }
  return out;
}

}  // namespace quire::reference
