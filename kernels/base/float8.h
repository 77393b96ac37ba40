// Float8E4M3, Float8E5M2: storage of 8-bit floating-point numbers (OCP OFP8, arXiv 2209.05433), and
// their conversions on the host. Plain values; any thread.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/base/dtype.h"

namespace quire {

// A sign, kExponentBits, and the rest mantissa. E4M3 has no infinity, and its NaN is all ones; E5M2
// is float16 without its last eight bits.
template <int kExponentBits>
struct Float8 {
  static constexpr int kMantissaBits = 7 - kExponentBits;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr bool kHasInfinity = kExponentBits == 5;
  // 448 and 57,344.
  static constexpr uint8_t kMaxFiniteBits = kHasInfinity ? 0x7b : 0x7e;
  static constexpr uint8_t kNanBits = 0x7f;

  uint8_t bits = 0;

  Float8() = default;
  // Rounds to nearest even; what is larger than the largest finite number becomes that; NaN stays.
  explicit Float8(float value);
  explicit operator float() const;
};

using Float8E4M3 = Float8<4>;
using Float8E5M2 = Float8<5>;
static_assert(sizeof(Float8E4M3) == 1 && sizeof(Float8E5M2) == 1);

template <>
inline constexpr DType kDTypeOf<Float8E4M3> = DType::kF8E4M3;
template <>
inline constexpr DType kDTypeOf<Float8E5M2> = DType::kF8E5M2;

template <int kExponentBits>
Float8<kExponentBits>::Float8(float value) {
  const uint32_t all = std::bit_cast<uint32_t>(value);
  const uint32_t sign = all >> 24 & 0x80u;
  uint32_t magnitude = all & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    bits = static_cast<uint8_t>(sign | kNanBits);
    return;
  }
  constexpr uint32_t kDropped = 23 - kMantissaBits;       // bits of float32's mantissa
  constexpr uint32_t kLeastNormal = (128 - kBias) << 23;  // as float32's bits
  if (magnitude < kLeastNormal) {
    // A multiple of the least number; adding 2^23 leaves it, rounded, in the last bits.
    constexpr uint32_t kMultiplesPerUnit = (126 + kBias + kMantissaBits) << 23;
    const float multiple =
        std::bit_cast<float>(magnitude) * std::bit_cast<float>(kMultiplesPerUnit) + 0x1p23f;
    bits = static_cast<uint8_t>(sign | (std::bit_cast<uint32_t>(multiple) & 0xffu));
    return;
  }
  // Rounding up to the next exponent carries into its field by itself.
  magnitude += (1u << (kDropped - 1)) - 1 + (magnitude >> kDropped & 1u);
  magnitude = (magnitude - (kLeastNormal - (1u << 23))) >> kDropped;
  bits = static_cast<uint8_t>(sign | std::min<uint32_t>(magnitude, kMaxFiniteBits));
}

template <int kExponentBits>
Float8<kExponentBits>::operator float() const {
  const uint32_t magnitude = bits & 0x7fu;
  const float sign = (bits & 0x80u) != 0 ? -1.0f : 1.0f;
  if (kHasInfinity ? magnitude > 0x7c : magnitude == 0x7f) {
    return sign * std::numeric_limits<float>::quiet_NaN();
  }
  if (kHasInfinity && magnitude == 0x7c) return sign * std::numeric_limits<float>::infinity();
  const int field = static_cast<int>(magnitude >> kMantissaBits);
  const int mantissa = static_cast<int>(magnitude & ((1u << kMantissaBits) - 1));
  const int whole = field == 0 ? mantissa : mantissa + (1 << kMantissaBits);
  const int exponent = (field == 0 ? 1 : field) - kBias - kMantissaBits;
  return sign * std::ldexp(static_cast<float>(whole), exponent);
}

}  // namespace quire
