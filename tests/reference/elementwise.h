// The specification of norms, gated activations, sums, gates, soft caps and rotary embedding:
// plain loops in double on one row.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/op_args.h"

namespace quire::reference {

// x / sqrt(mean(x^2) + eps) * weight.
inline std::vector<double> RmsNorm(const std::vector<double>& x, const std::vector<float>& weight,
                                   double eps) {
  double sum = 0;
  for (double value : x) sum += value * value;
  const double scale = 1.0 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  std::vector<double> out;
  for (size_t i = 0; i < x.size(); ++i) out.push_back(x[i] * scale * weight[i]);
  return out;
}

// The norm of x - mean(x).
inline std::vector<double> LayerNorm(std::vector<double> x, const std::vector<float>& weight,
                                     double eps) {
  double sum = 0;
  for (double value : x) sum += value;
  for (double& value : x) value -= sum / static_cast<double>(x.size());
  return RmsNorm(x, weight, eps);
}

// activation(gate) * up.
inline double Gated(Activation activation, double gate, double up) {
  switch (activation) {
    case Activation::kSilu:
      return gate / (1.0 + std::exp(-gate)) * up;
    case Activation::kGeluTanh:
      return 0.5 * gate *
             (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (gate + 0.044715 * gate * gate * gate))) * up;
    case Activation::kClampedSwish:
      break;
  }
  const double clamped = gate > 7 ? 7 : gate;
  return clamped / (1.0 + std::exp(-1.702 * clamped)) * ((up > 7 ? 7 : up < -7 ? -7 : up) + 1);
}

// Of a row; gate is the first half of `gate_up`.
inline std::vector<double> GatedActivation(Activation activation,
                                           const std::vector<float>& gate_up) {
  const size_t size = gate_up.size() / 2;
  std::vector<double> out;
  for (size_t i = 0; i < size; ++i) out.push_back(Gated(activation, gate_up[i], gate_up[size + i]));
  return out;
}

inline double Add(double x, double y, double factor) { return (x + y) * factor; }

inline double Gate(double x, double gate) { return x / (1.0 + std::exp(-gate)); }

inline double SoftCap(double x, double cap) { return cap * std::tanh(x / cap); }

// Rotates the pairs (i, i + pair_distance) of a head, i < num_pairs, or with a distance of 1 its
// neighbours (2 * i, 2 * i + 1), by the angles of `cos_sin`, one row of 2 * num_pairs: cosines,
// then sines.
inline std::vector<double> Rotate(std::vector<double> head, const float* cos_sin, int64_t num_pairs,
                                  int64_t pair_distance) {
  for (int64_t i = 0; i < num_pairs; ++i) {
    const int64_t first = pair_distance == 1 ? 2 * i : i;
    const double a = head[first];
    const double b = head[first + pair_distance];
    head[first] = a * cos_sin[i] - b * cos_sin[num_pairs + i];
    head[first + pair_distance] = b * cos_sin[i] + a * cos_sin[num_pairs + i];
  }
  return head;
}

}  // namespace quire::reference
