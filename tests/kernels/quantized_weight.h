// Weights at random as checkpoints have them, in every format that gemms have, and the values that
// their codes stand for.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/base/float8.h"
#include "kernels/packed_codes.h"
#include "kernels/weight_store.h"

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
      {"int4_group16", {.value = kInt4, .group_columns = 16}},
      {"int4_channel", {.value = kInt4}},
      {"int4_channel_zeros", {.value = kInt4, .zero_points = true}},
      {"int8_group32", {.value = kInt8, .group_columns = 32}},
      {"int8_group64_zeros", {.value = kInt8, .group_columns = 64, .zero_points = true}},
      {"int8_group128_zeros", {.value = kInt8, .group_columns = 128, .zero_points = true}},
      {"int8_channel", {.value = kInt8}},
      {"int8_channel_zeros", {.value = kInt8, .zero_points = true}},
      {"int8_channel_int8", {.value = kInt8}, {.value = ActivationValue::kInt8}},
      {"fp8_group64", {.value = kFloat8, .group_columns = 64}},
      {"fp8_group128", {.value = kFloat8, .group_columns = 128}},
      {"fp8_channel", {.value = kFloat8}},
      {"fp8_group128_fp8",
       {.value = kFloat8, .group_columns = 128},
       {.value = ActivationValue::kFloat8}},
      {"fp8_channel_fp8", {.value = kFloat8}, {.value = ActivationValue::kFloat8}},
      {"mxfp8", {.value = kFloat8, .scale = ScaleValue::kPowerOfTwo, .group_columns = 32}},
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

// kExtreme: those of a row are times one of the powers of two of kExtremeExponents, or of all of
// them; of some groups and of every eighth row they are 0, where the format has it. With
// activations of usual sizes no sum leaves float32, which has no place for those of sub-normal
// scales: a row of these may be off by kVanishing, which is more than all its products.
enum class ScaleSizes { kUsual, kExtreme };
inline constexpr int kExtremeExponents[] = {0, 100, -80, 20, -140, -20};
inline constexpr double kVanishing = 0x1p-104;

// A weight at random, as a checkpoint has it.
struct HostWeight {
  const WeightFormat format;
  const int64_t rows, columns, num_groups;
  std::vector<uint8_t> codes;        // [rows, columns], sorted by group
  std::vector<uint8_t> packed;       // the same of 4 bits as QuantizedRows has them
  std::vector<uint8_t> scale_codes;  // [rows, num_groups]
  std::vector<float> scales;         // the same as float32, the rows' scales included
  std::vector<float> row_scales;     // [rows]
  std::vector<uint8_t> zero_points;  // [rows, num_groups]
  std::vector<int32_t> order;        // [columns]

  HostWeight(const WeightFormat& format, int64_t rows, int64_t columns, uint32_t seed,
             ScaleSizes sizes = ScaleSizes::kUsual)
      : format(format), rows(rows), columns(columns), num_groups(NumGroups(format, columns)) {
    std::mt19937 rng(seed);
    const int bits = BitsOf(format.value);
    for (int64_t i = 0; i < rows * columns; ++i) {
      auto code = static_cast<uint8_t>(rng() & ((1u << bits) - 1));
      if (format.value == WeightValue::kFloat8 && (code & 0x7f) == 0x7f) code = 0;  // NaN
      codes.push_back(code);
    }
    if (bits == 4) packed.resize(rows * CodeRowBytes(format.value, columns));
    for (int64_t row = 0; row < rows && bits == 4; ++row) {
      PackCodes(format.value, codes.data() + row * columns, columns,
                packed.data() + row * CodeRowBytes(format.value, columns));
    }
    for (int64_t row = 0; row < rows; ++row) AddGroupsOfRow(rng, row, sizes);
    order.resize(columns);
    std::iota(order.begin(), order.end(), 0);
    if (format.ordered) std::shuffle(order.begin(), order.end(), rng);
  }

  void AddGroupsOfRow(std::mt19937& rng, int64_t row, ScaleSizes sizes) {
    constexpr int64_t kNumExponents = std::size(kExtremeExponents);
    const bool extreme = sizes == ScaleSizes::kExtreme;
    // By the row, or after all of them by the group.
    const int64_t kind = extreme ? row % (kNumExponents + 1) : 0;
    row_scales.push_back(0.001f * static_cast<float>(1 + rng() % 100));
    if (kind < kNumExponents && format.scale == ScaleValue::kFloat8) {
      row_scales.back() = std::ldexp(row_scales.back(), kExtremeExponents[kind]);
    }
    for (int64_t g = 0; g < num_groups; ++g) {
      const bool zero = extreme && (row % 8 == 7 || rng() % 8 == 0);
      AddGroup(rng, kExtremeExponents[kind < kNumExponents ? kind : g % kNumExponents], zero);
    }
  }

  void AddGroup(std::mt19937& rng, int exponent, bool zero) {
    const auto middle = static_cast<uint8_t>(1 << (BitsOf(format.value) - 1));
    zero_points.push_back(format.zero_points ? rng() % (2 * middle) : middle);
    switch (format.scale) {
      case ScaleValue::kFloat32: {
        scale_codes.push_back(0);
        const float mantissa = 1.0f + static_cast<float>(rng() % 1000) / 1000;
        scales.push_back(zero ? 0 : std::ldexp(mantissa, exponent - int(rng() % 12)));
        return;
      }
      case ScaleValue::kFloat8:
        scale_codes.push_back(zero ? 0 : rng() % 0x7f);
        scales.push_back(Float8Value(scale_codes.back()) * row_scales.back());
        return;
      case ScaleValue::kPowerOfTwo: {
        const int code = rng() % 16 == 0 ? 0 : 110 + static_cast<int>(rng() % 20);
        scale_codes.push_back(code == 0 ? 0 : std::max(0, code + exponent));
        scales.push_back(std::ldexp(1.0f, scale_codes.back() - 127));
      }
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
            .codes = packed.empty() ? codes.data() + first * columns
                                    : packed.data() + first * CodeRowBytes(format.value, columns),
            .scales = as_floats ? static_cast<const void*>(scales.data() + first * num_groups)
                                : scale_codes.data() + first * num_groups,
            .row_scales = format.scale == ScaleValue::kFloat8 ? row_scales.data() + first : nullptr,
            .zero_points = format.zero_points ? zero_points.data() + first * num_groups : nullptr,
            .order = format.ordered ? order.data() : nullptr};
  }
};

}  // namespace quire
