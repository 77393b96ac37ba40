#include "tests/kernels/experts_fixture.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "tests/reference/elementwise.h"

namespace quire {

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

HostExperts::HostExperts(QuantizedCase format, int32_t num_experts, int64_t rows, int64_t columns)
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

reference::Matrices HostExperts::RoundedTo(DType dtype) const {
  reference::Matrices rounded;
  for (const auto& matrix : values) {
    const auto floats = RoundTo(dtype, {matrix.begin(), matrix.end()});
    rounded.emplace_back(floats.begin(), floats.end());
  }
  return rounded;
}

ExpertsTest::DeviceWeight ExpertsTest::Load(const HostExperts& host, DType dtype) {
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

void ExpertsTest::LoadExperts(const HostExperts& host, const LinearWeight& weight) {
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

ExpertsTest::DeviceRouting ExpertsTest::UploadRouting(const reference::Routed& routed,
                                                      int64_t top_k) {
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

std::vector<float> ExpertsTest::RunGated(const LinearWeight& weight,
                                         const reference::Routed& routed, int64_t top_k,
                                         const std::vector<float>& x,
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

std::vector<float> ExpertsTest::RunLinear(const LinearWeight& weight,
                                          const reference::Routed& routed, int64_t top_k,
                                          const std::vector<float>& x,
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

void ExpertsTest::ExpectOneOf(const std::vector<float>& actual,
                              const std::vector<Expectation>& expectations) {
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

double ExpertsTest::PrecisionOf(const HostExperts& host) {
  return static_cast<double>(host.columns + 2) * 0x1p-22;
}

std::vector<float> ExpertsTest::AsMultiplied(const HostExperts& host, const std::vector<float>& x) {
  const bool is_gpu = GetParam().kind == DeviceKind::kCuda;
  const bool is_int8 = host.format.activations.value == ActivationValue::kInt8;
  return is_int8 && !is_gpu ? RoundToInt8(x, host.columns) : x;
}

std::vector<reference::Matrices> ExpertsTest::MatricesOf(const HostExperts& host, DType dtype) {
  if (!host.format.format.quantized()) return {host.RoundedTo(dtype)};
  std::vector<reference::Matrices> matrices = {host.values};
  if (GetParam().kind == DeviceKind::kCuda && MayRoundValues(host.format.format)) {
    matrices.push_back(host.RoundedTo(dtype));
  }
  return matrices;
}

double ExpertsTest::PrecisionWith(const HostExperts& host, size_t which) {
  return which == 0 ? PrecisionOf(host) : std::max(PrecisionOf(host), kRoundedPrecision);
}

void ExpertsTest::ExpectGated(const HostExperts& host, const LinearWeight& weight,
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

Expectation ExpertsTest::Gated(const reference::LinearResult& gate_up, int64_t size, DType dtype,
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

void ExpertsTest::ExpectLinear(const HostExperts& host, const LinearWeight& weight,
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
    expectations.push_back(Summed(routed, top_k,
                                  reference::ExpertsRows(
                                      routed, AsMultiplied(host, x), [](size_t row) { return row; },
                                      all_matrices[i], bias, host.rows, host.columns),
                                  added, host.rows, dtype, PrecisionWith(host, i)));
  }
  ExpectOneOf(actual, expectations);
}

Expectation ExpertsTest::Summed(const reference::Routed& routed, int64_t top_k,
                                const reference::LinearResult& rows, const Added& added,
                                int64_t size, DType dtype, double precision) {
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

}  // namespace quire
