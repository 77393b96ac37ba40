#include "engine/model/weights/quantize_rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/base/check.h"
#include "kernels/base/float8.h"

namespace quire {
namespace {

constexpr float kMaxFloat8 = 448;
constexpr uint32_t kInfinity = 0x7f800000;

// The bits of max|x|; those of numbers that are not finite are kInfinity and above: as integers,
// NaNs have a place in the order, too.
uint32_t MaxMagnitude(const float* x, int64_t size) {
  uint32_t max = 0;
  for (int64_t i = 0; i < size; ++i) {
    max = std::max(max, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
  }
  return max;
}

}  // namespace

bool QuantizeToFloat8(const WeightFormat& format, const float* rows, int64_t num_rows,
                      int64_t num_columns, Float8Codes* out) {
  CHECK(format.value == WeightValue::kFloat8 && format.scale == ScaleValue::kFloat32);
  const int64_t num_groups = NumGroups(format, num_columns);
  const int64_t group = format.group_columns == 0 ? num_columns : format.group_columns;
  out->codes.resize(num_rows * num_columns);
  out->scales.resize(num_rows * num_groups);
  for (int64_t row = 0; row < num_rows; ++row) {
    for (int64_t g = 0; g < num_groups; ++g) {
      const int64_t first = row * num_columns + g * group;
      const int64_t size = std::min(group, num_columns - g * group);
      const uint32_t max = MaxMagnitude(rows + first, size);
      if (max >= kInfinity) return false;
      const float wanted = std::bit_cast<float>(max) / kMaxFloat8;
      // Numbers so small that a scale has few bits left all become 0.
      const float scale = std::isnormal(wanted) ? wanted : 1.0f;
      out->scales[row * num_groups + g] = scale;
      for (int64_t i = first; i < first + size; ++i) {
        out->codes[i] = Float8E4M3(rows[i] / scale).bits;
      }
    }
  }
  return true;
}

}  // namespace quire
