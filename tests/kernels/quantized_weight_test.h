// Weights at random as checkpoints have them, in every format that gemms have, the values that
// their codes stand for, and the fixture that brings them to a device.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/base/float8.h"
#include "tests/kernels/kernel_test.h"

namespace quire {

struct QuantizedCase {
  std::string name;
  WeightFormat format;
  ActivationFormat activations = {};
};

inline std::vector<QuantizedCase> QuantizedCases() {
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

inline float Float8Value(uint8_t code) {
  Float8E4M3 value;
  value.bits = code;
  return static_cast<float>(value);
}

inline double ValueOfCode(WeightValue value, uint8_t code, int zero_point) {
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

class QuantizedWeightTest : public KernelTest {
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
};

// x of a token as int8 times its scale.
inline std::vector<float> RoundToInt8(std::vector<float> x, int64_t columns) {
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
inline std::vector<float> RoundToFloat8(std::vector<float> x, int64_t columns) {
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
inline constexpr double kFloat8Precision = 6e-4;

}  // namespace quire
