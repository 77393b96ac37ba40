// From codes as PackedLayout has them to a lane's part of wgmma's first operand: exact values in
// bfloat16 or float16. Integers are put into the mantissa of a power of two, which is then
// subtracted with the zero point (the trick of FasterTransformer's and Marlin's dequantisation);
// floats are shifted to the place of the wider type's exponent and multiplied by the ratio of the
// two biases, which subnormal numbers need, too. Device code only.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/runtime/vector.cuh"
#include "kernels/float4_word.h"
#include "kernels/packed_layout.h"

namespace quire::cuda {

template <typename T>
inline constexpr bool kIsHalf = std::is_same_v<T, __half>;

template <typename T>
__device__ __forceinline__ uint32_t SubtractPairs(uint32_t a, uint32_t b) {
  uint32_t result;
  if constexpr (kIsHalf<T>) {
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
}
template <typename T>
__device__ __forceinline__ uint32_t MultiplyPairs(uint32_t a, uint32_t b) {
  uint32_t result;
  if constexpr (kIsHalf<T>) {
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  } else {
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  }
  return result;
}

// a * b + c, rounded once.
template <typename T>
__device__ __forceinline__ uint32_t MultiplyAddPairs(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t result;
  if constexpr (kIsHalf<T>) {
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  } else {
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  }
  return result;
}

// (from & mask) | others in one instruction; the compiler takes two where both are constants.
__device__ __forceinline__ uint32_t SelectBits(uint32_t from, uint32_t mask, uint32_t others) {
  uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(result) : "r"(from), "r"(mask), "r"(others));
  return result;
}

// Pairs of e4m3 in the upper bytes of the halves.
template <typename T>
__device__ __forceinline__ uint32_t WidenFloat8(uint32_t codes) {
  const uint32_t sign = codes & 0x80008000u;
  if constexpr (kIsHalf<T>) {
    return MultiplyPairs<T>(SelectBits(codes >> 1, 0x3f803f80u, sign), 0x5c005c00u);  // 2^8
  } else {
    return MultiplyPairs<T>(SelectBits(codes >> 4, 0x07f007f0u, sign), 0x7b807b80u);  // 2^120
  }
}

// The number that is subtracted from a pair of integers, made from their zero point.
template <typename T, WeightValue kValue>
__device__ __forceinline__ uint32_t ZeroPair(uint32_t zero_point) {
  if constexpr (kValue == WeightValue::kInt8) {
    return __float_as_uint(static_cast<float>(zero_point + (1u << 23)));
  } else {
    return (kIsHalf<T> ? 0x64006400u : 0x43004300u) | zero_point * 0x00010001u;
  }
}

// The factor that lifts 4-bit floats: where they are shifted to, they are too small by 2^-126
// (bfloat16) or 2^-14 (float16).
template <typename T>
inline constexpr uint32_t kFloat4Lift = kIsHalf<T> ? 0x74007400u : 0x7e807e80u;

// The factors that 4-bit floats of two groups are multiplied with, kFloat4Lift among them: a pair,
// from the scales' bytes (PackedLayout) kFirst and kFirst + 1 of `codes`.
template <typename T, bool kIsPower, int kFirst>
__device__ __forceinline__ uint32_t TwoFactors(uint32_t codes) {
  if constexpr (kIsPower) {  // bfloat16's exponent
    return __byte_perm(codes, 0, 0x4140 + kFirst * 0x0101) << 7;
  } else {
    // The rows' scales have 2^kFloat8ScaleShift of the lift, which would leave no room for the
    // scale.
    constexpr uint32_t kLift =
        kFloat4Lift<T> - kFloat8ScaleShift * (kIsHalf<T> ? 0x04000400u : 0x00800080u);
    return MultiplyPairs<T>(WidenFloat8<T>(__byte_perm(codes, 0, 0x1404 + kFirst * 0x1010)), kLift);
  }
}
// One of a pair's halves in both. A multiplication reads it so, without an instruction of its own,
// which the compiler sees in this form only.
__device__ __forceinline__ uint32_t BothHalves(uint32_t pair, bool is_upper) {
  uint32_t lower, upper;
  asm("{\n.reg .b16 l, u;\nmov.b32 {l, u}, %2;\nmov.b32 %0, {l, l};\nmov.b32 %1, {u, u};\n}\n"
      : "=r"(lower), "=r"(upper)
      : "r"(pair));
  return is_upper ? upper : lower;
}

// The zero points or scales of the values of two rows, r and r + 8.
struct RowPairs {
  uint32_t upper, lower;
};

// A scale as the sum of two numbers of 16 bits, for pairs. The sum is as exact as the scale, so
// that a product with it is rounded once; one product in some hundred may still be a bit off. The
// scale is multiplied by kLift, because the second number would otherwise be too small for float16.
// Weights of 1,024 and more become infinite there.
template <typename T>
struct SplitScale {
  static constexpr float kLift = kIsHalf<T> ? 64 : 1;
  uint32_t high = 0, low = 0;

  SplitScale() = default;
  __device__ explicit SplitScale(float scale) {
    scale *= kLift;
    high = PackPair<T>(scale, scale);
    const float rest = scale - ToFloat(high);
    low = PackPair<T>(rest, rest);
  }
  __device__ uint32_t operator()(uint32_t pair) const {
    return MultiplyAddPairs<T>(pair, high, MultiplyPairs<T>(pair, low));
  }

 private:
  static __device__ float ToFloat(uint32_t pair) {
    if constexpr (kIsHalf<T>) return __half2float(__ushort_as_half(static_cast<uint16_t>(pair)));
    return __uint_as_float(pair << 16);
  }
};

// A slice's operand from 4-bit integers; `zeros` are the rows' zero points.
template <typename T>
__device__ __forceinline__ void DequantizeInt4(uint32_t word, const RowPairs& zeros,
                                               uint32_t (&operand)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int shift = (i % 2) * 8 + (i / 2) * 4;  // of the pair's codes, 4 bits in each half
    constexpr uint32_t kMagic = kIsHalf<T> ? 0x64006400u : 0x43004300u;
    operand[i] = SubtractPairs<T>(SelectBits(word >> shift, 0x000f000fu, kMagic),
                                  i % 2 == 0 ? zeros.upper : zeros.lower);
  }
}

// A pair of a Float4Word, too small by kFloat4Lift.
template <typename T>
__device__ __forceinline__ uint32_t UnscaledFloat4s(uint32_t word, int pair) {
  const uint32_t bits = Float4Pair(word, pair);
  if constexpr (kIsHalf<T>) return SelectBits(bits << 3, 0x0e000e00u, bits & 0x80008000u);
  return bits;
}

// A pair of 8-bit integers, bytes kFirst and kFirst + 2 of a word, times a scale.
template <typename T, int kFirst>
__device__ __forceinline__ uint32_t WidenInt8(uint32_t word, uint32_t zero, float scale) {
  constexpr uint32_t kMagic = 0x4b000000u;  // 2^23
  const float low = __uint_as_float(__byte_perm(word, kMagic, 0x7540 | kFirst));
  const float high = __uint_as_float(__byte_perm(word, kMagic, 0x7540 | (kFirst + 2)));
  return PackPair<T>((low - __uint_as_float(zero)) * scale, (high - __uint_as_float(zero)) * scale);
}

// The same from 8-bit codes, a word of each row.
template <typename T, WeightValue kValue>
__device__ __forceinline__ void Dequantize8(const uint32_t (&words)[2], const RowPairs& pairs,
                                            float upper, float lower, uint32_t (&operand)[4]) {
#pragma unroll
  for (int row = 0; row < 2; ++row) {
    if constexpr (kValue == WeightValue::kFloat8) {
      operand[row] = WidenFloat8<T>(words[row] << 8);
      operand[row + 2] = WidenFloat8<T>(words[row]);
    } else {
      const uint32_t zero = row == 0 ? pairs.upper : pairs.lower;
      const float scale = row == 0 ? upper : lower;
      operand[row] = WidenInt8<T, 0>(words[row], zero, scale);
      operand[row + 2] = WidenInt8<T, 1>(words[row], zero, scale);
    }
  }
}

}  // namespace quire::cuda
