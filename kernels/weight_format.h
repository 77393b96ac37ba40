// WeightFormat: how the values of a weight are kept, as data; ActivationFormat: what the
// activations that it is multiplied with become first. Plain values; any thread.
//
// A weight is [out_features, in_features]. Its columns are covered by groups, and the value of an
// element is
//   kFloat:           the element, of LinearWeight::dtype
//   kInt8, kInt4:     (code - zero_point[row, group]) * scale[row, group]
//   kFloat8, kFloat4: value_of(code) * scale[row, group]
// in float32; without zero points they are the middle of the codes, 2^(bits - 1).
#pragma once

#include <cstdint>
#include <string>

namespace quire {

enum class WeightValue : uint8_t {
  kFloat,
  kFloat8,  // e4m3
  kInt8,
  kInt4,
  kFloat4,  // e2m1
};

// How a group's scale is kept. All but kFloat32 are multiplied by the weight's global scale,
// rounded to float32.
enum class ScaleValue : uint8_t {
  kFloat32,
  kFloat8,      // e4m3
  kPowerOfTwo,  // E8M0: 2^(code - 127)
};

struct WeightFormat {
  WeightValue value = WeightValue::kFloat;
  ScaleValue scale = ScaleValue::kFloat32;
  int32_t group_columns = 0;  // that share a scale; 0: all of a row
  bool zero_points = false;
  // Columns are kept sorted by group, in an order of their own (GPTQ's desc_act).
  bool ordered = false;

  bool quantized() const { return value != WeightValue::kFloat; }
  bool operator==(const WeightFormat&) const = default;
};

enum class ActivationValue : uint8_t {
  kAsTheyAre,
  kInt8,    // of each token: round(x / scale), scale = max|x| / 127
  kFloat8,  // of each token's 128 columns: e4m3 of x / scale, scale = max|x| / 448
};

struct ActivationFormat {
  ActivationValue value = ActivationValue::kAsTheyAre;
  bool operator==(const ActivationFormat&) const = default;
};

// The formats of a linear operation: of its weight and of its activations.
struct LinearFormat {
  WeightFormat weight = {};
  ActivationFormat activations = {};
  bool operator==(const LinearFormat&) const = default;
};

// The bits of a quantized value.
constexpr int BitsOf(WeightValue value) {
  return value == WeightValue::kInt4 || value == WeightValue::kFloat4 ? 4 : 8;
}
constexpr int64_t BytesOf(ScaleValue scale) { return scale == ScaleValue::kFloat32 ? 4 : 1; }

// Groups of a row.
constexpr int64_t NumGroups(const WeightFormat& format, int64_t in_features) {
  return format.group_columns == 0
             ? 1
             : (in_features + format.group_columns - 1) / format.group_columns;
}

// What a gemm reads of a quantized weight, padding not counted.
constexpr int64_t QuantizedBytes(const WeightFormat& format, int64_t out_features,
                                 int64_t in_features) {
  const int64_t group_bytes = BytesOf(format.scale) + (format.zero_points ? 1 : 0);
  return (out_features * in_features * BitsOf(format.value) + 7) / 8 +
         out_features * NumGroups(format, in_features) * group_bytes +
         (format.ordered ? in_features * 4 : 0);
}

// "int4, groups of 128, zero points": for logs and tables.
std::string Describe(const WeightFormat& format);

}  // namespace quire
