// ExpertsTest: a mixture's experts on a backend, and what comes of them against plain loops in
// double. For tests.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/kernels/quantized_weight_test.h"
#include "tests/reference/experts.h"

namespace quire {

enum class Spread {
  kRandom,
  kFew,   // the first quarter of the experts
  kSame,  // all tokens the same ones, the last first
};

// The weights of the choices are random, too.
reference::Routed RouteAtRandom(int64_t num_tokens, int32_t top_k, int32_t num_experts,
                                Spread spread, uint32_t seed);

// The routing of some tokens, which are then the first ones.
reference::Routed TokensOf(const reference::Routed& routed, int64_t first, int64_t count,
                           int64_t top_k);

// Experts as a checkpoint has them.
struct HostExperts {
  QuantizedCase format;  // kFloat: `values` are the weight
  int64_t rows, columns;
  std::vector<HostWeight> quantized = {};
  reference::Matrices values = {};

  HostExperts(QuantizedCase format, int32_t num_experts, int64_t rows, int64_t columns);

  auto num_experts() const { return static_cast<int64_t>(values.size()); }
  reference::Matrices RoundedTo(DType dtype) const;
};

inline const QuantizedCase kFloatCase = {"float", {}};

// The values that may come out, and how far from them the results may be.
struct Expectation {
  std::vector<double> values, tolerances;
};

class ExpertsTest : public QuantizedWeightTest {
 protected:
  DeviceWeight Load(const HostExperts& host, DType dtype);
  void LoadExperts(const HostExperts& host, const LinearWeight& weight);

  struct DeviceRouting {
    DeviceBuffer experts, weights, pairs, offsets;
    Routing routing;
  };
  DeviceRouting UploadRouting(const reference::Routed& routed, int64_t top_k);

  std::vector<float> RunGated(const LinearWeight& weight, const reference::Routed& routed,
                              int64_t top_k, const std::vector<float>& x,
                              const std::vector<float>& bias, Activation activation);

  // The tensor that is added, if there is one: as it is, or with a gate. With is_out, it is where
  // the result is written.
  struct Added {
    std::vector<float> values = {};  // [num_tokens, out_features]
    std::vector<float> gates = {};   // [num_tokens]
    bool is_out = false;
  };
  std::vector<float> RunLinear(const LinearWeight& weight, const reference::Routed& routed,
                               int64_t top_k, const std::vector<float>& x,
                               const std::vector<float>& bias, const Added& added);

  // Each within one of the expectations.
  void ExpectOneOf(const std::vector<float>& actual, const std::vector<Expectation>& expectations);

  // Of products, in shares of their magnitude.
  double PrecisionOf(const HostExperts& host);
  // x as it is multiplied.
  std::vector<float> AsMultiplied(const HostExperts& host, const std::vector<float>& x);
  // A GPU may have rounded the values that it multiplies.
  std::vector<reference::Matrices> MatricesOf(const HostExperts& host, DType dtype);
  double PrecisionWith(const HostExperts& host, size_t which);

  void ExpectGated(const HostExperts& host, const LinearWeight& weight,
                   const reference::Routed& routed, int64_t top_k, bool has_bias,
                   Activation activation, float deviation);
  // The expectation for gates and ups that were rounded. An activation is at most as large as its
  // argument, and changes at most 1.2 times as fast.
  static Expectation Gated(const reference::LinearResult& gate_up, int64_t size, DType dtype,
                           Activation activation, double precision);

  void ExpectLinear(const HostExperts& host, const LinearWeight& weight,
                    const reference::Routed& routed, int64_t top_k, bool has_bias,
                    const Added& added, float deviation);
  static Expectation Summed(const reference::Routed& routed, int64_t top_k,
                            const reference::LinearResult& rows, const Added& added, int64_t size,
                            DType dtype, double precision);
};

}  // namespace quire
