// The specification of kernels' Linear: plain loops in double.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace quire::reference {

// out[m][n] = sum over k of x[m][k] * weight[n][k], plus bias[n] (bias may be empty).
// `magnitude` is the same sum of absolute values: what rounding errors are proportional to.
struct LinearResult {
  std::vector<double> out;        // [num_rows, out_features]
  std::vector<double> magnitude;  // [num_rows, out_features]
};

inline LinearResult Linear(const std::vector<float>& x, const std::vector<float>& weight,
                           const std::vector<float>& bias, int64_t num_rows, int64_t out_features,
                           int64_t in_features) {
  LinearResult result;
  for (int64_t m = 0; m < num_rows; ++m) {
    for (int64_t n = 0; n < out_features; ++n) {
      double sum = bias.empty() ? 0.0 : bias[n];
      double magnitude = std::abs(sum);
      for (int64_t k = 0; k < in_features; ++k) {
        const double product =
            static_cast<double>(x[m * in_features + k]) * weight[n * in_features + k];
        sum += product;
        magnitude += std::abs(product);
      }
      result.out.push_back(sum);
      result.magnitude.push_back(magnitude);
    }
  }
  return result;
}

}  // namespace quire::reference
