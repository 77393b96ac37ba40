// Gemms with quantized weights, on every backend that has them: against float64 of the values that
// the codes stand for.
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/base/float8.h"
#include "kernels/base/random_weight.h"
#include "tests/kernels/kernel_test.h"

namespace quire {
namespace {

struct QuantizedCase {
  std::string name;
  WeightFormat format;
  ActivationFormat activations = {};
};

std::vector<QuantizedCase> Cases() {
  using enum WeightValue;
  return {
      {"int4_group128", {.value = kInt4, .group_columns = 128}},
      {"int4_group32_zeros", {.value = kInt4, .group_columns = 32, .zero_points = true}},
      {"int4_group64_ordered",
       {.value = kInt4, .group_columns = 64, .zero_points = true, .ordered = true}},
      {"int4_channel", {.value = kInt4}},
      {"int8_group128_zeros", {.value = kInt8, .group_columns = 128, .zero_points = true}},
      {"int8_channel", {.value = kInt8}},
      {"int8_channel_int8", {.value = kInt8}, {.value = ActivationValue::kInt8}},
      {"fp8_group128", {.value = kFloat8, .group_columns = 128}},
      {"fp8_channel", {.value = kFloat8}},
      {"fp8_group128_fp8",
       {.value = kFloat8, .group_columns = 128},
       {.value = ActivationValue::kFloat8}},
      {"fp8_channel_fp8", {.value = kFloat8}, {.value = ActivationValue::kFloat8}},
      {"mxfp4", {.value = kFloat4, .scale = ScaleValue::kPowerOfTwo, .group_columns = 32}},
      {"nvfp4", {.value = kFloat4, .scale = ScaleValue::kFloat8, .group_columns = 16}},
      {"fp4_float32", {.value = kFloat4, .group_columns = 16}},
  };
}

float Float8Value(uint8_t code) {
  Float8E4M3 value;
  value.bits = code;
  return static_cast<float>(value);
}

double ValueOfCode(WeightValue value, uint8_t code, int zero_point) {
  static constexpr double kFloat4Values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  switch (value) {
    case WeightValue::kInt8:
    case WeightValue::kInt4:
      return code - zero_point;
    case WeightValue::kFloat8:
      return Float8Value(code);
    default:
      return (code & 8 ? -1 : 1) * kFloat4Values[code & 7];
  }
}

// A weight at random, as a checkpoint has it.
struct HostWeight {
  const WeightFormat format;
  const int64_t rows, columns, num_groups;
  std::vector<uint8_t> codes;        // [rows, columns], sorted by group
  std::vector<uint8_t> scale_codes;  // [rows, num_groups]
  std::vector<float> scales;         // the same as float32, the rows' scales included
  std::vector<float> row_scales;     // [rows]
  std::vector<uint8_t> zero_points;  // [rows, num_groups]
  std::vector<int32_t> order;        // [columns]

  HostWeight(const WeightFormat& format, int64_t rows, int64_t columns, uint32_t seed)
      : format(format), rows(rows), columns(columns), num_groups(NumGroups(format, columns)) {
    std::mt19937 rng(seed);
    const int bits = BitsOf(format.value);
    for (int64_t i = 0; i < rows * columns; ++i) {
      auto code = static_cast<uint8_t>(rng() & ((1u << bits) - 1));
      if (format.value == WeightValue::kFloat8 && (code & 0x7f) == 0x7f) code = 0;  // NaN
      codes.push_back(code);
    }
    for (int64_t row = 0; row < rows; ++row) {
      row_scales.push_back(0.001f * static_cast<float>(1 + rng() % 100));
      for (int64_t g = 0; g < num_groups; ++g) AddGroup(rng, row_scales.back());
    }
    order.resize(columns);
    std::iota(order.begin(), order.end(), 0);
    if (format.ordered) std::shuffle(order.begin(), order.end(), rng);
  }

  void AddGroup(std::mt19937& rng, float row_scale) {
    const auto middle = static_cast<uint8_t>(1 << (BitsOf(format.value) - 1));
    zero_points.push_back(format.zero_points ? rng() % (2 * middle) : middle);
    switch (format.scale) {
      case ScaleValue::kFloat32:
        scale_codes.push_back(0);
        scales.push_back(
            std::ldexp(1.0f + static_cast<float>(rng() % 1000) / 1000, -int(rng() % 12)));
        return;
      case ScaleValue::kFloat8:
        scale_codes.push_back(rng() % 0x7f);
        scales.push_back(Float8Value(scale_codes.back()) * row_scale);
        return;
      case ScaleValue::kPowerOfTwo:
        scale_codes.push_back(rng() % 16 == 0 ? 0 : 110 + rng() % 20);
        scales.push_back(std::ldexp(1.0f, scale_codes.back() - 127));
    }
  }

  // In the order of x.
  std::vector<double> Values() const {
    std::vector<double> values(rows * columns);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < columns; ++i) {
        const int64_t group =
            row * num_groups + (format.group_columns ? i / format.group_columns : 0);
        values[row * columns + order[i]] =
            ValueOfCode(format.value, codes[row * columns + i], zero_points[group]) * scales[group];
      }
    }
    return values;
  }

  QuantizedRows Rows(int64_t first, int64_t count) const {
    const bool as_floats = format.scale == ScaleValue::kFloat32;
    return {.num_rows = count,
            .codes = codes.data() + first * columns,
            .scales = as_floats ? static_cast<const void*>(scales.data() + first * num_groups)
                                : scale_codes.data() + first * num_groups,
            .row_scales = format.scale == ScaleValue::kFloat8 ? row_scales.data() + first : nullptr,
            .zero_points = format.zero_points ? zero_points.data() + first * num_groups : nullptr,
            .order = format.ordered ? order.data() : nullptr};
  }
};

class QuantizedLinearTest : public KernelTest {
 protected:
  struct DeviceWeight {
    DeviceBuffer buffer;
    LinearWeight weight;
  };

  bool Serves(const WeightFormat& format, DType activations) {
    return weight_store().FormatFor(format, activations) == format;
  }

  // Memory that is all ones first: padding must be harmless. In pieces that cut panels in two.
  DeviceWeight Load(const QuantizedCase& c, const HostWeight& host, DType dtype) {
    LinearWeight weight{.format = c.format,
                        .activations = c.activations,
                        .dtype = dtype,
                        .out_features = host.rows,
                        .in_features = host.columns};
    DeviceWeight result{.buffer = Upload(std::vector<char>(weight_store().BytesOf(weight), '\xff')),
                        .weight = weight};
    result.weight.data = result.buffer.data();
    const auto loader = weight_store().CreateLoader(0).value();
    constexpr int64_t kRows = 37;
    for (int64_t row = 0; row < host.rows; row += kRows) {
      const QuantizedRows rows = host.Rows(row, std::min(kRows, host.rows - row));
      EXPECT_TRUE(loader->LoadQuantized(result.weight, row, rows).ok());
    }
    EXPECT_TRUE(loader->Finish().ok());
    return result;
  }

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
};

// x of a token as int8 times its scale.
std::vector<float> RoundToInt8(std::vector<float> x, int64_t columns) {
  for (auto row = x.begin(); row != x.end(); row += columns) {
    float most = 0;
    for (int64_t i = 0; i < columns; ++i) most = std::max(most, std::abs(row[i]));
    for (int64_t i = 0; i < columns && most > 0; ++i) {
      row[i] = std::nearbyint(row[i] * (127 / most)) * (most / 127);
    }
  }
  return x;
}

// x of a token's 128 columns as e4m3 times its scale.
std::vector<float> RoundToFloat8(std::vector<float> x, int64_t columns) {
  for (size_t row = 0; row < x.size(); row += columns) {
    for (int64_t first = 0; first < columns; first += 128) {
      float most = 0;
      const int64_t end = std::min(first + 128, columns);
      for (int64_t i = first; i < end; ++i) most = std::max(most, std::abs(x[row + i]));
      const float scale = most / 448;
      for (int64_t i = first; i < end && most > 0; ++i) {
        x[row + i] = static_cast<float>(Float8E4M3(x[row + i] / scale)) * scale;
      }
    }
  }
  return x;
}

// Tensor cores cut sums of e4m3 to some 14 bits at each of the four gemms of 128 columns.
constexpr double kFloat8Precision = 6e-4;

TEST_P(QuantizedLinearTest, MatchesFloat64) {
  struct Shape {
    int64_t rows, columns;
    std::vector<int64_t> tokens;
  };
  const std::vector<Shape> shapes = {{200, 256, {1, 2, 3, 5, 6, 7, 13, 64}},
                                     {63, 640, {1, 4, 300}},
                                     {1, 128, {1, 12}},
                                     {130, 1000, {1, 9}}};
  for (const QuantizedCase& c : Cases()) {
    for (const Shape& shape : shapes) {
      if (c.format.group_columns > 0 && shape.columns % c.format.group_columns != 0 &&
          c.format.value != WeightValue::kFloat8) {
        continue;  // only blocks may be cut off
      }
      const HostWeight host(c.format, shape.rows, shape.columns, 7);
      const std::vector<double> values = host.Values();
      const std::vector<float> bias = RandomNormal(shape.rows, 3);
      for (const DType dtype : activation_dtypes()) {
        if (!Serves(c.format, dtype)) continue;
        const DeviceWeight weight = Load(c, host, dtype);
        for (const int64_t tokens : shape.tokens) {
          SCOPED_TRACE(testing::Message() << c.name << " " << tokens << " x " << shape.rows << " x "
                                          << shape.columns << " " << DTypeName(dtype));
          const std::vector<float> x = RoundTo(dtype, RandomNormal(tokens * shape.columns, 1));
          const std::vector<float> out = Multiply(weight.weight, x, dtype, DType::kF32, bias);
          // A GPU multiplies integers with activations as they are, which is more exact.
          const bool is_int8 =
              c.activations.value == ActivationValue::kInt8 && GetParam().kind == DeviceKind::kCpu;
          const bool is_float8 = c.activations.value == ActivationValue::kFloat8 &&
                                 GetParam().kind == DeviceKind::kCuda;
          const std::vector<float> rounded = is_int8     ? RoundToInt8(x, shape.columns)
                                             : is_float8 ? RoundToFloat8(x, shape.columns)
                                                         : x;
          const double precision = is_float8 ? kFloat8Precision : 1e-5;
          for (int64_t t = 0; t < tokens; ++t) {
            for (int64_t n = 0; n < shape.rows; ++n) {
              double sum = bias[n], size = std::abs(bias[n]);
              for (int64_t k = 0; k < shape.columns; ++k) {
                const double product =
                    rounded[t * shape.columns + k] * values[n * shape.columns + k];
                sum += product;
                size += std::abs(product);
              }
              ASSERT_NEAR(out[t * shape.rows + n], sum, size * precision) << t << " " << n;
            }
          }
        }
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
  for (const QuantizedCase& c : Cases()) {
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
  for (const QuantizedCase& c : Cases()) {
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

// Of a weight at random: its products with unit vectors are its values.
TEST_P(QuantizedLinearTest, FillsAtRandom) {
  constexpr int64_t kRows = 300, kColumns = 256;
  for (const QuantizedCase& c : Cases()) {
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
