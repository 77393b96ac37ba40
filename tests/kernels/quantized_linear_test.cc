// Gemms with quantized weights, on every backend that has them: against float64 of the values that
// the codes stand for.
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/base/float8.h"
#include "kernels/base/random_weight.h"
#include "tests/kernels/quantized_weight_test.h"

namespace quire {
namespace {

class QuantizedLinearTest : public QuantizedWeightTest {
 protected:
  std::vector<float> Multiply(const LinearWeight& weight, const std::vector<float>& x, DType dtype,
                              DType out_dtype, const std::vector<float>& bias = {}) {
    const auto num_rows = static_cast<int64_t>(x.size()) / weight.in_features;
    const DeviceTensor x_device = UploadTensor(x, dtype, {num_rows, weight.in_features});
    const DeviceTensor out = UploadTensor(std::vector<float>(num_rows * weight.out_features, -1.0f),
                                          out_dtype, {num_rows, weight.out_features});
    DeviceTensor bias_device;
    if (!bias.empty()) bias_device = UploadTensor(bias, DType::kF32, {weight.out_features});
    ops().Linear(
        stream(),
        {.x = x_device.tensor, .weight = &weight, .bias = bias_device.tensor, .out = out.tensor});
    return DownloadTensor(out.tensor);
  }

  // Expects x, rounded to the weight's dtype, times the weight's values, plus the bias, which may
  // be empty. Results are within a share of the products' magnitudes, or `vanishing`. A value that
  // must be 0 is 0.
  void ExpectFloat64(const QuantizedCase& c, const HostWeight& host, const LinearWeight& weight,
                     const std::vector<float>& unrounded_x, const std::vector<float>& bias,
                     double vanishing = 0) {
    const int64_t rows = host.rows, columns = host.columns;
    const auto tokens = static_cast<int64_t>(unrounded_x.size()) / columns;
    SCOPED_TRACE(testing::Message() << c.name << " " << tokens << " x " << rows << " x " << columns
                                    << " " << DTypeName(weight.dtype));
    const std::vector<double> values = host.Values();
    const std::vector<float> rounded_values = RoundTo(weight.dtype, {values.begin(), values.end()});
    const std::vector<float> x = RoundTo(weight.dtype, unrounded_x);
    const std::vector<float> out = Multiply(weight, x, weight.dtype, DType::kF32, bias);
    // A GPU multiplies integers with activations as they are, which is more exact.
    const bool is_gpu = GetParam().kind == DeviceKind::kCuda;
    const bool is_int8 = c.activations.value == ActivationValue::kInt8 && !is_gpu;
    const bool is_float8 = c.activations.value == ActivationValue::kFloat8 && is_gpu;
    const std::vector<float> rounded = is_int8     ? RoundToInt8(x, columns)
                                       : is_float8 ? RoundToFloat8(x, columns)
                                                   : x;
    const bool may_round = is_gpu && MayRoundValues(c.format);
    const double precision = is_float8 ? kFloat8Precision : 1e-5;
    for (int64_t t = 0; t < tokens; ++t) {
      for (int64_t n = 0; n < rows; ++n) {
        double sum = bias.empty() ? 0 : bias[n], rounded_sum = sum, size = std::abs(sum);
        for (int64_t k = 0; k < columns; ++k) {
          const double factor = rounded[t * columns + k];
          const double product = factor * values[n * columns + k];
          sum += product;
          rounded_sum += factor * rounded_values[n * columns + k];
          size += std::abs(product);
        }
        if (size == 0) {
          ASSERT_EQ(out[t * rows + n], 0) << t << " " << n;
        }
        const double off = std::abs(out[t * rows + n] - rounded_sum);
        if (may_round && off <= size * kRoundedPrecision) continue;
        ASSERT_NEAR(out[t * rows + n], sum, size * precision + vanishing) << t << " " << n;
      }
    }
  }
};

TEST_P(QuantizedLinearTest, MatchesFloat64) {
  struct Shape {
    int64_t rows, columns;
    std::vector<int64_t> tokens;
  };
  const std::vector<Shape> shapes = {{200, 256, {1, 2, 3, 5, 6, 7, 13, 64}},
                                     {63, 640, {1, 4, 300}},
                                     {1, 128, {1, 12}},
                                     {130, 1000, {1, 9}}};
  for (const QuantizedCase& c : QuantizedCases()) {
    for (const Shape& shape : shapes) {
      if (c.format.group_columns > 0 && shape.columns % c.format.group_columns != 0 &&
          c.format.value != WeightValue::kFloat8) {
        continue;  // only blocks may be cut off
      }
      const HostWeight host(c.format, shape.rows, shape.columns, 7);
      const std::vector<float> bias = RandomNormal(shape.rows, 3);
      for (const DType dtype : activation_dtypes()) {
        if (!Serves(c.format, dtype)) continue;
        const DeviceWeight weight = Load(c, host, dtype);
        for (const int64_t tokens : shape.tokens) {
          ExpectFloat64(c, host, weight.weight, RandomNormal(tokens * shape.columns, 1), bias);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Without a bias, which would hide small sums; one token and a group of the others are 0.
TEST_P(QuantizedLinearTest, ExtremeScalesMatchFloat64) {
  constexpr int64_t kRows = 72, kColumns = 384;
  for (const QuantizedCase& c : QuantizedCases()) {
    const HostWeight host(c.format, kRows, kColumns, 13, ScaleSizes::kExtreme);
    for (const DType dtype : activation_dtypes()) {
      if (!Serves(c.format, dtype)) continue;
      const DeviceWeight weight = Load(c, host, dtype);
      for (const int64_t tokens : {1, 5, 70}) {
        // Integers that are multiplied as float16 have no values of such sizes.
        if (dtype == DType::kF16 && tokens > 64 && MayRoundValues(c.format)) continue;
        std::vector<float> x = RandomNormal(tokens * kColumns, 4);
        if (tokens > 1) std::fill_n(x.begin() + kColumns, kColumns, 0.0f);
        for (int64_t t = 0; t < tokens; ++t) std::fill_n(x.begin() + t * kColumns + 128, 128, 0.0f);
        ExpectFloat64(c, host, weight.weight, x, {}, kVanishing);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Sums of 128 columns are added up in float32: cut to 14 bits again and again, a sum of positive
// numbers would come out some percent too small.
TEST_P(QuantizedLinearTest, SumsOfFloat8AreAddedUpInFloat32) {
  constexpr int64_t kRows = 64, kColumns = 16384, kTokens = 32;
  const QuantizedCase c = {
      "fp8", {.value = WeightValue::kFloat8}, {.value = ActivationValue::kFloat8}};
  if (!Serves(c.format, DType::kBF16)) GTEST_SKIP() << "keeps no FP8";
  HostWeight host(c.format, kRows, kColumns, 11);
  for (uint8_t& code : host.codes) code = 0x30 + code % 8;
  const std::vector<double> values = host.Values();
  std::vector<float> x = RandomNormal(kTokens * kColumns, 4);
  for (float& value : x) value = 1 + std::abs(value);
  x = RoundTo(DType::kBF16, x);
  const DeviceWeight weight = Load(c, host, DType::kBF16);
  const std::vector<float> out = Multiply(weight.weight, x, DType::kBF16, DType::kF32);
  if (GetParam().kind == DeviceKind::kCuda) x = RoundToFloat8(x, kColumns);
  for (int64_t n = 0; n < kRows; ++n) {
    double sum = 0;
    for (int64_t k = 0; k < kColumns; ++k) sum += x[k] * values[n * kColumns + k];
    EXPECT_NEAR(out[n], sum, sum * kFloat8Precision) << n;
  }
}

TEST_P(QuantizedLinearTest, ARowsBitsDoNotDependOnItsBatchNorOnThreads) {
  if (GetParam().kind == DeviceKind::kCuda) GTEST_SKIP() << "a CPU's promise";
  constexpr int64_t kRows = 200, kColumns = 512, kTokens = 250;
  for (const QuantizedCase& c : QuantizedCases()) {
    SCOPED_TRACE(c.name);
    const HostWeight host(c.format, kRows, kColumns, 8);
    const std::vector<float> x = RoundTo(DType::kBF16, RandomNormal(kTokens * kColumns, 2));
    std::vector<float> together;
    for (const int threads : {1, 3}) {
      OpenWithThreads(threads);
      const DeviceWeight weight = Load(c, host, DType::kBF16);
      const std::vector<float> out = Multiply(weight.weight, x, DType::kBF16, DType::kF32);
      if (together.empty()) together = out;
      ASSERT_EQ(out, together);
      for (const int64_t count : {1, 2, 4, 7, 30}) {
        const std::vector<float> some(x.begin() + 5 * kColumns, x.begin() + (5 + count) * kColumns);
        const std::vector<float> expected(together.begin() + 5 * kRows,
                                          together.begin() + (5 + count) * kRows);
        ASSERT_EQ(Multiply(weight.weight, some, DType::kBF16, DType::kF32), expected) << count;
      }
    }
  }
}

TEST_P(QuantizedLinearTest, WhatIsNotANumberIsSeenInItsRowAlone) {
  constexpr int64_t kRows = 70, kColumns = 256, kTokens = 20;  // more than a gemv has
  for (const QuantizedCase& c : QuantizedCases()) {
    if (!Serves(c.format, DType::kBF16)) continue;
    SCOPED_TRACE(c.name);
    const HostWeight host(c.format, kRows, kColumns, 9);
    const DeviceWeight weight = Load(c, host, DType::kBF16);
    std::vector<float> x = RandomNormal(kTokens * kColumns, 2);
    x[kColumns + 3] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> out = Multiply(weight.weight, x, DType::kBF16, DType::kF32);
    for (int64_t n = 0; n < kRows; ++n) {
      for (int64_t t = 0; t < kTokens; ++t) {
        ASSERT_EQ(std::isnan(out[t * kRows + n]), t == 1) << t << " " << n;
      }
    }
  }
}

// A random weight's products with unit vectors are its values.
TEST_P(QuantizedLinearTest, FillsAtRandom) {
  constexpr int64_t kRows = 300, kColumns = 256;
  for (const QuantizedCase& c : QuantizedCases()) {
    const DType dtype = Serves(c.format, DType::kF32) ? DType::kF32 : DType::kBF16;
    if (!Serves(c.format, dtype) || c.activations.value == ActivationValue::kInt8) continue;
    SCOPED_TRACE(c.name);
    LinearWeight weight{
        .format = c.format, .dtype = dtype, .out_features = kRows, .in_features = kColumns};
    const DeviceBuffer buffer = Upload(std::vector<char>(weight_store().BytesOf(weight), '\xff'));
    weight.data = buffer.data();
    weight_store().Fill(stream(), weight, {.seed = 1, .tensor_id = 2, .stddev = 0.03f});
    std::vector<float> x(16 * kColumns);
    for (int64_t i = 0; i < 16; ++i) x[i * kColumns + 16 * i] = 1;
    double sum = 0, squares = 0;
    const std::vector<float> out = Multiply(weight, x, dtype, DType::kF32);
    for (const float value : out) {
      sum += value;
      squares += static_cast<double>(value) * value;
    }
    const auto count = static_cast<double>(out.size());
    EXPECT_NEAR(sum / count, 0, 0.002);
    EXPECT_NEAR(std::sqrt(squares / count), 0.03, 0.004);
  }
}

INSTANTIATE_TEST_SUITE_P(All, QuantizedLinearTest, testing::ValuesIn(KernelTargets()), TargetName);

}  // namespace
}  // namespace quire
