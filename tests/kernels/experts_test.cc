// ExpertsGatedLinear and ExpertsLinear against plain loops in double, on every backend, with
// weights of every format.
#include "tests/reference/experts.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/quantized_weight_test.h"
#include "tests/reference/elementwise.h"

namespace quire {
namespace {

enum class Spread {
  kRandom,
  kFew,   // the first quarter of the experts
  kSame,  // all tokens the same ones, the last first
};

reference::Routed RouteAtRandom(int64_t num_tokens, int32_t top_k, int32_t num_experts,
                                Spread spread, uint32_t seed) {
  std::mt19937 rng(seed);
  reference::Routed routed;
  const int32_t few = std::max(top_k, num_experts / 4);
  std::vector<int32_t> order(spread == Spread::kFew ? few : num_experts);
  for (int64_t t = 0; t < num_tokens; ++t) {
    for (size_t e = 0; e < order.size(); ++e) order[e] = static_cast<int32_t>(e);
    spread == Spread::kSame ? std::reverse(order.begin(), order.end())
                            : std::shuffle(order.begin(), order.end(), rng);
    routed.experts.insert(routed.experts.end(), order.begin(), order.begin() + top_k);
    for (int32_t i = 0; i < top_k; ++i) {
      routed.weights.push_back(static_cast<float>(rng() % 1000) / 1000);
    }
  }
  reference::SortPairs(num_experts, &routed);
  return routed;
}

// Of some tokens, which are then the first ones.
reference::Routed TokensOf(const reference::Routed& routed, int64_t first, int64_t count,
                           int64_t top_k) {
  reference::Routed some;
  for (int64_t i = first * top_k; i < (first + count) * top_k; ++i) {
    some.experts.push_back(routed.experts[i]);
    some.weights.push_back(routed.weights[i]);
  }
  reference::SortPairs(static_cast<int32_t>(routed.offsets.size()) - 1, &some);
  return some;
}

// Experts as a checkpoint has them.
struct HostExperts {
  QuantizedCase format;  // kFloat: `values` are the weight
  int64_t rows, columns;
  std::vector<HostWeight> quantized = {};
  reference::Matrices values = {};

  HostExperts(QuantizedCase format, int32_t num_experts, int64_t rows, int64_t columns)
      : format(std::move(format)), rows(rows), columns(columns) {
    for (int32_t e = 0; e < num_experts; ++e) {
      if (this->format.format.quantized()) {
        quantized.emplace_back(this->format.format, rows, columns, 70 + e);
        values.push_back(quantized.back().Values());
      } else {
        const auto normal = RandomNormal(rows * columns, 70 + e, 0.1f);
        values.emplace_back(normal.begin(), normal.end());
      }
    }
  }
  auto num_experts() const { return static_cast<int64_t>(values.size()); }
  reference::Matrices RoundedTo(DType dtype) const {
    reference::Matrices rounded;
    for (const auto& matrix : values) {
      const auto floats = RoundTo(dtype, {matrix.begin(), matrix.end()});
      rounded.emplace_back(floats.begin(), floats.end());
    }
    return rounded;
  }
};

const QuantizedCase kFloatCase = {"float", {}};

// What may come out, and how far from it.
struct Expectation {
  std::vector<double> values, tolerances;
};

class ExpertsTest : public QuantizedWeightTest {
 protected:
  DeviceWeight Load(const HostExperts& host, DType dtype) {
    const LinearFormat format = weight_store().FormatFor(
        {host.format.format, host.format.activations}, dtype, /*has_experts=*/true);
    LinearWeight one{.format = format.weight,
                     .activations = format.activations,
                     .dtype = dtype,
                     .out_features = host.rows,
                     .in_features = host.columns};
    LinearWeight weight = one;
    weight.num_experts = host.num_experts();
    weight.expert_bytes = RoundUp<int64_t>(weight_store().BytesOf(one), 4096);
    DeviceWeight result{
        .buffer = Upload(std::vector<char>(weight.num_experts * weight.expert_bytes, '\xff')),
        .weight = weight};
    result.weight.data = result.buffer.data();
    LoadExperts(host, result.weight);
    return result;
  }
  void LoadExperts(const HostExperts& host, const LinearWeight& weight) {
    for (int64_t e = 0; e < weight.num_experts; ++e) {
      const LinearWeight expert = weight.Expert(e);
      if (weight.format.quantized()) {
        const auto loader = weight_store().CreateLoader(0).value();
        ASSERT_TRUE(loader->LoadQuantized(expert, 0, host.quantized[e].Rows(0, host.rows)).ok());
        ASSERT_TRUE(loader->Finish().ok());
      } else {
        std::vector<float> values(host.values[e].begin(), host.values[e].end());
        const Tensor rows(values.data(), DType::kF32, {host.rows, host.columns});
        ASSERT_TRUE(LoadRows(weight_store(), expert, 0, rows).ok());
      }
    }
  }

  struct DeviceRouting {
    DeviceBuffer experts, weights, pairs, offsets;
    Routing routing;
  };
  DeviceRouting UploadRouting(const reference::Routed& routed, int64_t top_k) {
    const auto num_pairs = static_cast<int64_t>(routed.pairs.size());
    const auto num_offsets = static_cast<int64_t>(routed.offsets.size());
    DeviceRouting result = {
        .experts = Upload(routed.experts),
        .weights = Upload(std::vector<float>(routed.weights.begin(), routed.weights.end())),
        .pairs = Upload(routed.pairs),
        .offsets = Upload(routed.offsets),
        .routing = {}};
    result.routing = {
        .experts = Tensor(result.experts.data(), DType::kI32, {num_pairs / top_k, top_k}),
        .weights = Tensor(result.weights.data(), DType::kF32, {num_pairs / top_k, top_k}),
        .pairs = Tensor(result.pairs.data(), DType::kI32, {num_pairs}),
        .offsets = Tensor(result.offsets.data(), DType::kI32, {num_offsets})};
    return result;
  }

  std::vector<float> RunGated(const LinearWeight& weight, const reference::Routed& routed,
                              int64_t top_k, const std::vector<float>& x,
                              const std::vector<float>& bias, Activation activation) {
    const DeviceRouting routing = UploadRouting(routed, top_k);
    const int64_t num_pairs = routing.routing.num_pairs(), size = weight.out_features / 2;
    const DeviceTensor x_device =
        UploadTensor(x, weight.dtype, {num_pairs / top_k, weight.in_features});
    const DeviceTensor bias_device =
        UploadTensor(bias, DType::kF32, {weight.num_experts, weight.out_features});
    const DeviceTensor gate_up =
        UploadTensor(std::vector<float>(num_pairs * weight.out_features, NAN), weight.dtype,
                     {num_pairs, weight.out_features});
    const DeviceTensor sorted_x =
        UploadTensor(std::vector<float>(num_pairs * weight.in_features, NAN), weight.dtype,
                     {num_pairs, weight.in_features});
    const DeviceTensor out =
        UploadTensor(std::vector<float>(num_pairs * size, NAN), weight.dtype, {num_pairs, size});
    ops().ExpertsGatedLinear(stream(), {.x = x_device.tensor,
                                        .weight = &weight,
                                        .bias = bias.empty() ? Tensor() : bias_device.tensor,
                                        .activation = activation,
                                        .routing = routing.routing,
                                        .gate_up = gate_up.tensor,
                                        .sorted_x = sorted_x.tensor,
                                        .out = out.tensor});
    return DownloadTensor(out.tensor);
  }

  // What is added: none of it, itself, or with a gate; where the result is written or not.
  struct Added {
    std::vector<float> values = {};  // [num_tokens, out_features]
    std::vector<float> gates = {};   // [num_tokens]
    bool is_out = false;
  };
  std::vector<float> RunLinear(const LinearWeight& weight, const reference::Routed& routed,
                               int64_t top_k, const std::vector<float>& x,
                               const std::vector<float>& bias, const Added& added) {
    const DeviceRouting routing = UploadRouting(routed, top_k);
    const int64_t num_pairs = routing.routing.num_pairs(), num_tokens = num_pairs / top_k;
    const int64_t size = weight.out_features;
    const DeviceTensor x_device = UploadTensor(x, weight.dtype, {num_pairs, weight.in_features});
    const DeviceTensor bias_device = UploadTensor(bias, DType::kF32, {weight.num_experts, size});
    const DeviceTensor rows =
        UploadTensor(std::vector<float>(num_pairs * size, NAN), weight.dtype, {num_pairs, size});
    const DeviceTensor add = UploadTensor(added.values, weight.dtype, {num_tokens, size});
    // A column of rows of three.
    std::vector<float> wide_gates(3 * added.gates.size(), NAN);
    for (size_t i = 0; i < added.gates.size(); ++i) wide_gates[3 * i] = added.gates[i];
    const DeviceBuffer gates = Upload(wide_gates);
    const DeviceTensor out =
        UploadTensor(std::vector<float>(num_tokens * size, NAN), weight.dtype, {num_tokens, size});
    const Tensor result = added.is_out ? add.tensor : out.tensor;
    ops().ExpertsLinear(
        stream(),
        {.x = x_device.tensor,
         .weight = &weight,
         .bias = bias.empty() ? Tensor() : bias_device.tensor,
         .routing = routing.routing,
         .rows = rows.tensor,
         .add = added.values.empty() ? Tensor() : add.tensor,
         .add_gate = added.gates.empty()
                         ? Tensor()
                         : Tensor(gates.data(), DType::kF32, {num_tokens, 1}).WithRowStride(3),
         .out = result});
    return DownloadTensor(result);
  }

  // Each within one of the expectations.
  void ExpectOneOf(const std::vector<float>& actual, const std::vector<Expectation>& expectations) {
    ASSERT_EQ(actual.size(), expectations[0].values.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      const bool is_near =
          std::any_of(expectations.begin(), expectations.end(), [&](const Expectation& expected) {
            return std::abs(actual[i] - expected.values[i]) <= expected.tolerances[i];
          });
      ASSERT_TRUE(is_near) << "element " << i << ": " << actual[i] << ", not "
                           << expectations[0].values[i] << " within "
                           << expectations[0].tolerances[i];
    }
  }

  // Of products, in shares of their magnitude.
  double PrecisionOf(const HostExperts& host) {
    return static_cast<double>(host.columns + 2) * 0x1p-22;
  }
  // x as it is multiplied.
  std::vector<float> AsMultiplied(const HostExperts& host, const std::vector<float>& x) {
    const bool is_gpu = GetParam().kind == DeviceKind::kCuda;
    const bool is_int8 = host.format.activations.value == ActivationValue::kInt8;
    return is_int8 && !is_gpu ? RoundToInt8(x, host.columns) : x;
  }
  // A GPU may have rounded the values that it multiplies.
  std::vector<reference::Matrices> MatricesOf(const HostExperts& host, DType dtype) {
    if (!host.format.format.quantized()) return {host.RoundedTo(dtype)};
    std::vector<reference::Matrices> matrices = {host.values};
    if (GetParam().kind == DeviceKind::kCuda && MayRoundValues(host.format.format)) {
      matrices.push_back(host.RoundedTo(dtype));
    }
    return matrices;
  }
  double PrecisionWith(const HostExperts& host, size_t which) {
    return which == 0 ? PrecisionOf(host) : std::max(PrecisionOf(host), kRoundedPrecision);
  }

  void ExpectGated(const HostExperts& host, const LinearWeight& weight,
                   const reference::Routed& routed, int64_t top_k, bool has_bias,
                   Activation activation, float deviation) {
    const DType dtype = weight.dtype;
    const auto num_tokens = static_cast<int64_t>(routed.pairs.size()) / top_k;
    SCOPED_TRACE(testing::Message() << host.format.name << " " << DTypeName(dtype) << " "
                                    << num_tokens << " tokens, activation "
                                    << static_cast<int>(activation) << ", bias " << has_bias);
    const auto x = RoundTo(dtype, RandomNormal(num_tokens * host.columns, 5, deviation));
    const auto bias =
        has_bias ? RandomNormal(host.num_experts() * host.rows, 6) : std::vector<float>();
    const auto actual = RunGated(weight, routed, top_k, x, bias, activation);
    std::vector<Expectation> expectations;
    const auto all_matrices = MatricesOf(host, dtype);
    for (size_t i = 0; i < all_matrices.size(); ++i) {
      expectations.push_back(Gated(
          reference::ExpertsRows(
              routed, AsMultiplied(host, x), [&](size_t row) { return routed.pairs[row] / top_k; },
              all_matrices[i], bias, host.rows, host.columns),
          host.rows / 2, dtype, activation, PrecisionWith(host, i)));
    }
    ExpectOneOf(actual, expectations);
  }
  // Of gates and ups that were rounded; an activation is at most as large as its argument, and
  // changes at most 1.2 times as fast.
  static Expectation Gated(const reference::LinearResult& gate_up, int64_t size, DType dtype,
                           Activation activation, double precision) {
    Expectation result;
    const auto error = [&](size_t i) {
      return OutputRounding(dtype) * std::abs(gate_up.out[i]) + precision * gate_up.magnitude[i] +
             SubnormalRounding(dtype);
    };
    for (size_t row = 0; row < gate_up.out.size(); row += 2 * size) {
      for (int64_t c = 0; c < size; ++c) {
        const double gate = gate_up.out[row + c], up = gate_up.out[row + size + c];
        const double value = reference::Gated(activation, gate, up);
        const double gate_error = error(row + c), up_error = error(row + size + c);
        result.values.push_back(value);
        result.tolerances.push_back(
            1.2 * gate_error * (std::abs(up) + 1) + (std::abs(gate) + gate_error) * up_error +
            (OutputRounding(dtype) + 2e-4) * std::abs(value) + SubnormalRounding(dtype) + 1e-9);
      }
    }
    return result;
  }

  void ExpectLinear(const HostExperts& host, const LinearWeight& weight,
                    const reference::Routed& routed, int64_t top_k, bool has_bias,
                    const Added& added, float deviation) {
    const DType dtype = weight.dtype;
    const auto num_pairs = static_cast<int64_t>(routed.pairs.size());
    SCOPED_TRACE(testing::Message() << host.format.name << " " << DTypeName(dtype) << " "
                                    << num_pairs / top_k << " tokens, bias " << has_bias << ", add "
                                    << !added.values.empty() << " gate " << !added.gates.empty());
    const auto x = RoundTo(dtype, RandomNormal(num_pairs * host.columns, 7, deviation));
    const auto bias =
        has_bias ? RandomNormal(host.num_experts() * host.rows, 8) : std::vector<float>();
    const auto actual = RunLinear(weight, routed, top_k, x, bias, added);
    std::vector<Expectation> expectations;
    const auto all_matrices = MatricesOf(host, dtype);
    for (size_t i = 0; i < all_matrices.size(); ++i) {
      expectations.push_back(
          Summed(routed, top_k,
                 reference::ExpertsRows(
                     routed, AsMultiplied(host, x), [](size_t row) { return row; }, all_matrices[i],
                     bias, host.rows, host.columns),
                 added, host.rows, dtype, PrecisionWith(host, i)));
    }
    ExpectOneOf(actual, expectations);
  }
  static Expectation Summed(const reference::Routed& routed, int64_t top_k,
                            const reference::LinearResult& rows, const Added& added, int64_t size,
                            DType dtype, double precision) {
    std::vector<double> errors;
    for (size_t i = 0; i < rows.out.size(); ++i) {
      errors.push_back((OutputRounding(dtype) + 1e-6) * std::abs(rows.out[i]) +
                       precision * rows.magnitude[i] + SubnormalRounding(dtype));
    }
    Expectation result = {.values = reference::SumOfChoices(routed, rows.out, top_k),
                          .tolerances = reference::SumOfChoices(routed, errors, top_k, true)};
    for (size_t i = 0; i < result.values.size(); ++i) {
      if (!added.values.empty()) {
        const double gate = added.gates.empty() ? 1 : 1 / (1 + std::exp(-added.gates[i / size]));
        const double add = gate * RoundTo(dtype, {added.values[i]})[0];
        result.values[i] += add;
        result.tolerances[i] += 1e-6 * std::abs(add);
      }
      result.tolerances[i] +=
          OutputRounding(dtype) * std::abs(result.values[i]) + SubnormalRounding(dtype) + 1e-9;
    }
    return result;
  }
};

constexpr Activation kActivations[] = {Activation::kSilu, Activation::kGeluTanh,
                                       Activation::kClampedSwish};

TEST_P(ExpertsTest, GatedLinearMatchesPlainLoops) {
  constexpr int32_t kExperts = 8, kTopK = 2;
  const HostExperts host(kFloatCase, kExperts, 2 * 44, 264);
  for (DType dtype : activation_dtypes()) {
    const DeviceWeight weight = Load(host, dtype);
    for (int64_t num_tokens : {1, 2, 5, 17, 64, 300}) {
      for (Spread spread : {Spread::kRandom, Spread::kFew, Spread::kSame}) {
        const auto routed = RouteAtRandom(num_tokens, kTopK, kExperts, spread, 11);
        ExpectGated(host, weight.weight, routed, kTopK, spread != Spread::kFew,
                    kActivations[num_tokens % 3], 2);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ExpertsTest, LinearMatchesPlainLoops) {
  constexpr int32_t kExperts = 8, kTopK = 3;
  const int64_t rows = 136;
  const HostExperts host(kFloatCase, kExperts, rows, 88);
  for (DType dtype : activation_dtypes()) {
    const DeviceWeight weight = Load(host, dtype);
    for (int64_t num_tokens : {1, 2, 5, 17, 64, 300}) {
      const Added add = {.values = RandomNormal(num_tokens * rows, 1)};
      const Added gated = {.values = add.values, .gates = RandomNormal(num_tokens, 2, 3)};
      const Added in_place = {.values = add.values, .gates = gated.gates, .is_out = true};
      for (Spread spread : {Spread::kRandom, Spread::kFew, Spread::kSame}) {
        const auto routed = RouteAtRandom(num_tokens, kTopK, kExperts, spread, 12);
        for (const Added& added : {Added(), add, gated, in_place}) {
          if (spread != Spread::kRandom && !added.is_out) continue;
          ExpectLinear(host, weight.weight, routed, kTopK, spread != Spread::kFew, added, 1);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST_P(ExpertsTest, ManyTokensAndExperts) {
  constexpr int32_t kExperts = 64, kTopK = 4;
  const HostExperts gated(kFloatCase, kExperts, 2 * 16, 32);
  const HostExperts linear(kFloatCase, kExperts, 32, 16);
  const DType dtype = half_dtypes().front();
  const DeviceWeight gated_weight = Load(gated, dtype), linear_weight = Load(linear, dtype);
  for (Spread spread : {Spread::kRandom, Spread::kSame}) {
    const auto routed = RouteAtRandom(4096, kTopK, kExperts, spread, 13);
    ExpectGated(gated, gated_weight.weight, routed, kTopK, true, Activation::kSilu, 1);
    ExpectLinear(linear, linear_weight.weight, routed, kTopK, true, {}, 1);
  }
}

// So many that a GPU multiplies them by tiles, of sizes that are none of theirs.
TEST_P(ExpertsTest, LargeWeights) {
  constexpr int32_t kExperts = 32, kTopK = 4;
  const HostExperts gated(kFloatCase, kExperts, 2 * 616, 136);
  const HostExperts linear(kFloatCase, kExperts, 1240, 88);
  for (DType dtype : half_dtypes()) {
    const DeviceWeight gated_weight = Load(gated, dtype), linear_weight = Load(linear, dtype);
    for (int64_t num_tokens : {9, 400}) {
      for (Spread spread : {Spread::kRandom, Spread::kFew}) {
        const auto routed = RouteAtRandom(num_tokens, kTopK, kExperts, spread, 19);
        ExpectGated(gated, gated_weight.weight, routed, kTopK, spread == Spread::kFew,
                    kActivations[num_tokens % 3], 1);
        ExpectLinear(linear, linear_weight.weight, routed, kTopK, spread == Spread::kFew, {}, 1);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ExpertsTest, AllTokensToOneExpert) {
  for (DType dtype : activation_dtypes()) {
    const HostExperts gated(kFloatCase, 5, 2 * 40, 72), linear(kFloatCase, 5, 72, 40);
    const DeviceWeight gated_weight = Load(gated, dtype), linear_weight = Load(linear, dtype);
    for (int64_t num_tokens : {1, 9, 200}) {
      const auto routed = RouteAtRandom(num_tokens, 1, 5, Spread::kSame, 14);
      ExpectGated(gated, gated_weight.weight, routed, 1, true, Activation::kSilu, 1);
      ExpectLinear(linear, linear_weight.weight, routed, 1, true, {}, 1);
    }
  }
}

TEST_P(ExpertsTest, WeightsOfEveryFormat) {
  constexpr int32_t kExperts = 6, kTopK = 2;
  for (const QuantizedCase& c : QuantizedCases()) {
    const HostExperts gated(c, kExperts, 2 * 64, 256), linear(c, kExperts, 72, 128);
    for (DType dtype : activation_dtypes()) {
      if (!Serves(c.format, dtype, true)) continue;
      const DeviceWeight gated_weight = Load(gated, dtype), linear_weight = Load(linear, dtype);
      for (int64_t num_tokens : {1, 6, 70}) {
        const auto routed = RouteAtRandom(num_tokens, kTopK, kExperts, Spread::kRandom, 15);
        const Added add = {.values = RandomNormal(num_tokens * linear.rows, 1)};
        ExpectGated(gated, gated_weight.weight, routed, kTopK, true, kActivations[num_tokens % 3],
                    0.004f);
        ExpectLinear(linear, linear_weight.weight, routed, kTopK, false, add, 0.01f);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ExpertsTest, TheSameCallTwiceHasTheSameBits) {
  constexpr int32_t kExperts = 16, kTopK = 4;
  const HostExperts gated(kFloatCase, kExperts, 2 * 64, 128), linear(kFloatCase, kExperts, 128, 64);
  for (DType dtype : activation_dtypes()) {
    const DeviceWeight gated_weight = Load(gated, dtype), linear_weight = Load(linear, dtype);
    for (int64_t num_tokens : {1, 7, 100}) {
      const auto routed = RouteAtRandom(num_tokens, kTopK, kExperts, Spread::kRandom, 16);
      const auto run = [&] {
        auto out = RunGated(gated_weight.weight, routed, kTopK, RandomNormal(num_tokens * 128, 1),
                            {}, Activation::kSilu);
        const auto sums = RunLinear(linear_weight.weight, routed, kTopK, out, {}, {});
        out.insert(out.end(), sums.begin(), sums.end());
        return out;
      };
      const auto first = run();
      for (int i = 0; i < 3; ++i) ASSERT_EQ(run(), first) << num_tokens;
    }
  }
}

TEST_P(ExpertsTest, ATokensBitsDoNotDependOnItsBatchNorOnThreads) {
  if (GetParam().kind == DeviceKind::kCuda) GTEST_SKIP() << "a CPU's promise";
  constexpr int32_t kExperts = 6, kTopK = 2;
  constexpr int64_t kTokens = 250;
  std::vector<QuantizedCase> cases = QuantizedCases();
  cases.push_back(kFloatCase);
  const auto routed = RouteAtRandom(kTokens, kTopK, kExperts, Spread::kRandom, 17);
  const auto x = RoundTo(DType::kBF16, RandomNormal(kTokens * 128, 1));
  for (const QuantizedCase& c : cases) {
    SCOPED_TRACE(c.name);
    const HostExperts gated(c, kExperts, 2 * 64, 128), linear(c, kExperts, 96, 128);
    std::vector<float> gated_together, sums_together;
    for (int num_threads : {1, 3}) {
      OpenWithThreads(num_threads);
      const DeviceWeight gated_weight = Load(gated, DType::kBF16);
      const DeviceWeight linear_weight = Load(linear, DType::kBF16);
      // Of each token's choices, in their order.
      const auto run_gated = [&](const reference::Routed& some, int64_t first) {
        const auto num_pairs = static_cast<int64_t>(some.pairs.size());
        const std::vector<float> some_x(x.begin() + first * 128,
                                        x.begin() + (first + num_pairs / kTopK) * 128);
        const auto rows = RunGated(gated_weight.weight, some, kTopK, some_x, {}, Activation::kSilu);
        std::vector<float> by_pair(rows.size());
        for (int64_t i = 0; i < num_pairs; ++i) {
          std::copy_n(rows.begin() + i * 64, 64, by_pair.begin() + some.pairs[i] * 64);
        }
        return by_pair;
      };
      const auto run_linear = [&](const reference::Routed& some, int64_t first) {
        std::vector<float> some_x;
        for (int32_t pair : some.pairs) {
          const auto row = x.begin() + (first + pair / kTopK) * 128;
          some_x.insert(some_x.end(), row, row + 128);
        }
        return RunLinear(linear_weight.weight, some, kTopK, some_x, {}, {});
      };
      const auto gated_out = run_gated(routed, 0), sums = run_linear(routed, 0);
      if (gated_together.empty()) gated_together = gated_out, sums_together = sums;
      ASSERT_EQ(gated_out, gated_together);
      ASSERT_EQ(sums, sums_together);
      for (int64_t count : {1, 5, 30}) {
        const auto some = TokensOf(routed, 3, count, kTopK);
        ASSERT_EQ(run_gated(some, 3),
                  std::vector<float>(gated_together.begin() + 3 * kTopK * 64,
                                     gated_together.begin() + (3 + count) * kTopK * 64))
            << count;
        ASSERT_EQ(run_linear(some, 3), std::vector<float>(sums_together.begin() + 3 * 96,
                                                          sums_together.begin() + (3 + count) * 96))
            << count;
      }
    }
  }
}

// The others' memory may not be there.
TEST_P(ExpertsTest, OnlyChosenExpertsAreRead) {
  if (GetParam().kind == DeviceKind::kCuda) GTEST_SKIP() << "memory cannot be taken away";
  constexpr int32_t kExperts = 8, kTopK = 2;
  for (const QuantizedCase& c : {kFloatCase, QuantizedCases()[0]}) {
    const HostExperts host(c, kExperts, 2 * 40, 128);
    DeviceWeight weight = Load(host, DType::kBF16);
    const int64_t page = sysconf(_SC_PAGESIZE);
    weight.weight.expert_bytes = RoundUp<int64_t>(weight.weight.expert_bytes, page);
    const int64_t bytes = kExperts * weight.weight.expert_bytes;
    void* const memory =
        mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    weight.weight.data = memory;
    LoadExperts(host, weight.weight);
    for (int64_t num_tokens : {1, 20}) {
      const auto routed = RouteAtRandom(num_tokens, kTopK, kExperts, Spread::kFew, 18);
      const std::set<int32_t> chosen(routed.experts.begin(), routed.experts.end());
      for (int32_t e = 0; e < kExperts; ++e) {
        const int protection = chosen.contains(e) ? PROT_READ : PROT_NONE;
        ASSERT_EQ(mprotect(weight.weight.Expert(e).data, weight.weight.expert_bytes, protection),
                  0);
      }
      ExpectGated(host, weight.weight, routed, kTopK, true, Activation::kSilu, 0.1f);
    }
    munmap(memory, bytes);
  }
}

// A step with its router, replayed with other logits: all counts are on the device.
TEST_P(ExpertsTest, ACapturedStepRoutesAnew) {
  constexpr int32_t kExperts = 8, kTopK = 2;
  constexpr int64_t kTokens = 12, kHidden = 64, kSize = 32;
  const DType dtype = half_dtypes().front();
  const HostExperts gated(kFloatCase, kExperts, 2 * kSize, kHidden);
  const HostExperts linear(kFloatCase, kExperts, kHidden, kSize);
  const DeviceWeight gated_weight = Load(gated, dtype), linear_weight = Load(linear, dtype);
  const RouterRule rule = {.num_experts = kExperts, .top_k = kTopK, .renormalise = true};
  const auto x = RoundTo(dtype, RandomNormal(kTokens * kHidden, 1));
  const auto zeros = [&](int64_t rows, int64_t columns) {
    return UploadTensor(std::vector<float>(rows * columns), dtype, {rows, columns});
  };
  const DeviceTensor x_device = UploadTensor(x, dtype, {kTokens, kHidden});
  const DeviceTensor logits =
      UploadTensor(std::vector<float>(kTokens * kExperts), DType::kF32, {kTokens, kExperts});
  const DeviceTensor gate_up = zeros(kTokens * kTopK, 2 * kSize);
  const DeviceTensor middle = zeros(kTokens * kTopK, kSize);
  const DeviceTensor rows = zeros(kTokens * kTopK, kHidden), out = zeros(kTokens, kHidden);
  const DeviceRouting routing =
      UploadRouting(RouteAtRandom(kTokens, kTopK, kExperts, Spread::kSame, 1), kTopK);
  const auto enqueue = [&] {
    ops().Route(stream(), {.logits = logits.tensor, .rule = rule, .out = routing.routing});
    ops().ExpertsGatedLinear(stream(), {.x = x_device.tensor,
                                        .weight = &gated_weight.weight,
                                        .routing = routing.routing,
                                        .gate_up = gate_up.tensor,
                                        .out = middle.tensor});
    ops().ExpertsLinear(stream(), {.x = middle.tensor,
                                   .weight = &linear_weight.weight,
                                   .routing = routing.routing,
                                   .rows = rows.tensor,
                                   .out = out.tensor});
  };
  stream().BeginCapture();
  enqueue();
  const auto graph = stream().EndCapture();
  ASSERT_TRUE(graph.ok()) << graph.status();
  for (uint32_t seed : {1, 2, 3}) {
    Overwrite(logits.buffer, RandomNormal(kTokens * kExperts, seed));
    stream().Launch(**graph);
    const auto replayed = DownloadTensor(out.tensor);
    const auto experts = Download<int32_t>(routing.experts.data(), kTokens * kTopK);
    enqueue();
    ASSERT_EQ(DownloadTensor(out.tensor), replayed);
    // Of the routing that the device made.
    reference::Routed routed = {.experts = experts, .weights = {}, .pairs = {}, .offsets = {}};
    for (float weight : Download<float>(routing.weights.data(), kTokens * kTopK)) {
      routed.weights.push_back(weight);
    }
    reference::SortPairs(kExperts, &routed);
    const auto middle_values =
        RunGated(gated_weight.weight, routed, kTopK, x, {}, Activation::kSilu);
    ASSERT_EQ(RunLinear(linear_weight.weight, routed, kTopK, middle_values, {}, {}), replayed);
  }
}

TEST_P(ExpertsTest, NoTokensAreNoWork) {
  const HostExperts host(kFloatCase, 4, 2 * 32, 64);
  const DeviceWeight weight = Load(host, half_dtypes().front());
  const reference::Routed none = {
      .experts = {}, .weights = {}, .pairs = {}, .offsets = std::vector<int32_t>(5)};
  EXPECT_TRUE(RunGated(weight.weight, none, 2, {}, {}, Activation::kSilu).empty());
}

INSTANTIATE_TEST_SUITE_P(Targets, ExpertsTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire
