// Float16: storage of an IEEE float16, and its conversions on the host, which checkpoints need.
// float32 to float16 rounds to nearest even, beyond the range to infinity; the other way is exact.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace quire {

inline float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t fraction = half & 0x3ffu;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

inline uint16_t FloatToHalf(float value) {
  const uint32_t sign = std::bit_cast<uint32_t>(value) >> 16 & 0x8000u;
  const float magnitude = std::abs(value);
  uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  if (std::isnan(value)) {
    bits = 0x7e00;
  } else if (magnitude >= 65520.0f) {  // half a unit above the largest
    bits = 0x7c00;
  } else if (magnitude < 0x1p-14f) {  // zero or subnormal: a unit in the last place of 0.5 is 2^-24
    bits = std::bit_cast<uint32_t>(magnitude + 0.5f) - std::bit_cast<uint32_t>(0.5f);
  } else {
    bits = (bits + 0xfffu + (bits >> 13 & 1u) - (112u << 23)) >> 13;
  }
  return static_cast<uint16_t>(sign | bits);
}

struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  explicit Float16(float value) : bits(FloatToHalf(value)) {}
  explicit operator float() const { return HalfToFloat(bits); }
};
static_assert(sizeof(Float16) == 2);

}  // namespace quire
