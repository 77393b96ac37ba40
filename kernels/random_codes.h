// The codes of quantized weights at random (WeightStore::Fill): those of the values of
// random_weight.h. The same on every backend. Plain functions; any thread.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/base/float8.h"
#include "kernels/weight_format.h"

namespace quire {

// The integer that stands for 0 without zero points.
constexpr uint8_t MiddleCode(WeightValue value) {
  return static_cast<uint8_t>(1 << (BitsOf(value) - 1));
}

// For values other than kFloat8: the nearest code, with a scale of 1.
constexpr uint8_t RandomCode(WeightValue value, float scaled) {
  if (value == WeightValue::kFloat4) {
    constexpr float kMiddles[] = {0.25f, 0.75f, 1.25f, 1.75f, 2.5f, 3.5f, 5};
    uint8_t code = scaled < 0 ? 8 : 0;
    for (const float middle : kMiddles) code += (scaled < 0 ? -scaled : scaled) > middle ? 1 : 0;
    return code;
  }
  const int middle = MiddleCode(value);
  const int code = static_cast<int>(scaled + (scaled < 0 ? -0.5f : 0.5f)) + middle;
  return static_cast<uint8_t>(code < 0 ? 0 : code > 2 * middle - 1 ? 2 * middle - 1 : code);
}

// The scale that all groups have.
struct RandomScale {
  float value;      // all of it
  uint32_t code;    // a group's: the bits of a float32, or a byte
  float row_scale;  // of rows, where groups' scales are bytes
};

// Four deviations fill the range of an integer; a float has one as its 1.
inline RandomScale RandomScaleOf(const WeightFormat& format, float stddev) {
  float wanted = stddev;
  if (format.value == WeightValue::kInt8) wanted = 4 * stddev / 127;
  if (format.value == WeightValue::kInt4) wanted = 4 * stddev / 7;
  switch (format.scale) {
    case ScaleValue::kFloat32:
      return {.value = wanted, .code = std::bit_cast<uint32_t>(wanted), .row_scale = 1};
    case ScaleValue::kFloat8:
      return {.value = wanted, .code = Float8E4M3(1.0f).bits, .row_scale = wanted};
    default:
      const int exponent = std::ilogb(wanted);
      return {.value = std::ldexp(1.0f, exponent),
              .code = static_cast<uint32_t>(exponent + 127),
              .row_scale = 1};
  }
}

}  // namespace quire
