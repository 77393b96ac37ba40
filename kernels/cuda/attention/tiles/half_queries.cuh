// Queries of 16 bits as other types for gemms: bfloat16 as float16 beside what was widened from 8
// bits, multiplied by a power of two that brings the largest of a tile near float16's largest, so
// that all of them fit (what is lost is below 2^-38 of the largest); or as e4m3. Device code only.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/float8.cuh"
#include "kernels/cuda/runtime/mma.cuh"

namespace quire::cuda {

// By half of a register, the larger magnitude, as bits of bfloat16.
__device__ __forceinline__ uint32_t LargerMagnitudes(uint32_t magnitudes, uint32_t pair) {
  return __vmaxu2(magnitudes, pair & 0x7fff7fffu);
}

// The largest of all lanes and halves.
__device__ __forceinline__ uint32_t LargestOfWarp(uint32_t magnitudes) {
  return __reduce_max_sync(0xffffffffu, max(magnitudes & 0xffffu, magnitudes >> 16));
}

// The same for e4m3, from either 16-bit type.
struct Float8Scale {
  __device__ Float8Scale(uint32_t largest, bool is_half) : is_half_(is_half) {
    constexpr int32_t kFloatBias = 127, kLargestExponent = 7, kMostSteps = 100;
    const int32_t exponent = static_cast<int32_t>(largest >> (is_half ? 10 : 7));
    const int32_t steps =
        min(kLargestExponent + (is_half ? 15 : kFloatBias) - exponent, kMostSteps);
    factor_ = __int_as_float((kFloatBias + steps) << 23);
    inverse = __int_as_float((kFloatBias - steps) << 23);
  }
  __device__ uint32_t Convert(uint32_t low_pair, uint32_t high_pair) const {
    const float2 low = Floats(low_pair), high = Floats(high_pair);
    return NarrowPair<__NV_E4M3>(low.x, low.y) | NarrowPair<__NV_E4M3>(high.x, high.y) << 16;
  }

  float inverse;

 private:
  __device__ float2 Floats(uint32_t pair) const {
    if (is_half_) {
      const float2 wide = __half22float2(*reinterpret_cast<const __half2*>(&pair));
      return {wide.x * factor_, wide.y * factor_};
    }
    return {__uint_as_float(pair << 16) * factor_, __uint_as_float(pair & 0xffff0000u) * factor_};
  }

  float factor_;
  const bool is_half_;
};

struct HalfScale {
  // `largest` magnitude, as bits of bfloat16.
  __device__ explicit HalfScale(uint32_t largest) {
    constexpr int32_t kBias = 127, kLargestExponent = 14, kMostSteps = 100;
    const int32_t steps =
        min(kLargestExponent + kBias - static_cast<int32_t>(largest >> 7), kMostSteps);
    factor = __int_as_float((kBias + steps) << 23);
    inverse = __int_as_float((kBias - steps) << 23);
  }
  __device__ uint32_t Convert(uint32_t pair) const {
    return PackPair<__half>(__uint_as_float(pair << 16) * factor,
                            __uint_as_float(pair & 0xffff0000u) * factor);
  }

  float factor;
  float inverse;
};

}  // namespace quire::cuda
