// Queries in bfloat16 as float16, for gemms with what was widened from 8 bits: multiplied by a
// power of two that brings the largest of a tile near float16's largest, so that all of them fit.
// What is lost is below 2^-38 of the largest. Device code only.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/tiles/mma.cuh"

namespace quire::cuda {

// By half of a register, the larger magnitude, as bits of bfloat16.
__device__ __forceinline__ uint32_t LargerMagnitudes(uint32_t magnitudes, uint32_t pair) {
  return __vmaxu2(magnitudes, pair & 0x7fff7fffu);
}

// The largest of all lanes and halves.
__device__ __forceinline__ uint32_t LargestOfWarp(uint32_t magnitudes) {
  return __reduce_max_sync(0xffffffffu, max(magnitudes & 0xffffu, magnitudes >> 16));
}

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
