// Element access of the row-wise kernels: kWidth consecutive float32, bfloat16 or float16 elements
// as floats, in 16-byte accesses where kWidth is kVector, and what decides whether it may be.
// Device code.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "kernels/base/tensor.h"

namespace quire::cuda {

inline constexpr int kVector = 8;  // elements per access: one of 16-bit types, two of float32

template <int kWidth>
__device__ inline void Load(const float* from, float (&values)[kWidth]) {
  if constexpr (kWidth == 1) {
    values[0] = from[0];
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; i += 4) {
      const float4 quad = *reinterpret_cast<const float4*>(from + i);
      values[i] = quad.x;
      values[i + 1] = quad.y;
      values[i + 2] = quad.z;
      values[i + 3] = quad.w;
    }
  }
}

template <int kWidth>
__device__ inline void Load(const __nv_bfloat16* from, float (&values)[kWidth]) {
  if constexpr (kWidth == 1) {
    values[0] = __bfloat162float(from[0]);
  } else {
    static_assert(kWidth == kVector);
    const uint4 raw = *reinterpret_cast<const uint4*>(from);
    const uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      values[2 * i] = __uint_as_float(words[i] << 16);
      values[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
  }
}

template <int kWidth>
__device__ inline void Load(const __half* from, float (&values)[kWidth]) {
  if constexpr (kWidth == 1) {
    values[0] = __half2float(from[0]);
  } else {
    static_assert(kWidth == kVector);
    const uint4 raw = *reinterpret_cast<const uint4*>(from);
    const __half2* pairs = reinterpret_cast<const __half2*>(&raw);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float2 pair = __half22float2(pairs[i]);
      values[2 * i] = pair.x;
      values[2 * i + 1] = pair.y;
    }
  }
}

template <int kWidth>
__device__ inline void Store(const float (&values)[kWidth], float* to) {
  if constexpr (kWidth == 1) {
    to[0] = values[0];
  } else {
#pragma unroll
    for (int i = 0; i < kWidth; i += 4) {
      *reinterpret_cast<float4*>(to + i) =
          make_float4(values[i], values[i + 1], values[i + 2], values[i + 3]);
    }
  }
}

template <int kWidth>
__device__ inline void Store(const float (&values)[kWidth], __nv_bfloat16* to) {
  if constexpr (kWidth == 1) {
    to[0] = __float2bfloat16_rn(values[0]);
  } else {
    static_assert(kWidth == kVector);
    uint4 raw;
    __nv_bfloat162* pairs = reinterpret_cast<__nv_bfloat162*>(&raw);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] = __floats2bfloat162_rn(values[2 * i], values[2 * i + 1]);
    }
    *reinterpret_cast<uint4*>(to) = raw;
  }
}

template <int kWidth>
__device__ inline void Store(const float (&values)[kWidth], __half* to) {
  if constexpr (kWidth == 1) {
    to[0] = __float2half_rn(values[0]);
  } else {
    static_assert(kWidth == kVector);
    uint4 raw;
    __half2* pairs = reinterpret_cast<__half2*>(&raw);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      pairs[i] = __floats2half2_rn(values[2 * i], values[2 * i + 1]);
    }
    *reinterpret_cast<uint4*>(to) = raw;
  }
}

// Two floats as bfloat16 or float16, the first in the lower half.
template <typename T>
__device__ __forceinline__ uint32_t PackPair(float low, float high) {
  uint32_t packed;
  if constexpr (std::is_same_v<T, __half>) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(packed) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(packed) : "f"(high), "f"(low));
  }
  return packed;
}

// The value as a T holds it; beyond float16's range infinity. By the instruction for pairs: the one
// for single values is slow.
template <typename T>
__device__ __forceinline__ float Rounded(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else if constexpr (std::is_same_v<T, __half>) {
    return __half2float(
        __ushort_as_half(static_cast<uint16_t>(PackPair<__half>(value, 0.0f) & 0xffffu)));
  } else {
    return __uint_as_float(PackPair<__nv_bfloat16>(value, 0.0f) << 16);
  }
}

// A vector of any of the dtypes, told apart at run time: norm weights and biases.
struct FloatVector {
  const void* data = nullptr;
  DType dtype = DType::kF32;

  FloatVector() = default;
  explicit FloatVector(const Tensor& tensor) : data(tensor.data()), dtype(tensor.dtype()) {}

  template <int kWidth>
  __device__ void LoadAt(int64_t i, float (&values)[kWidth]) const {
    if (dtype == DType::kBF16) {
      Load(static_cast<const __nv_bfloat16*>(data) + i, values);
    } else if (dtype == DType::kF16) {
      Load(static_cast<const __half*>(data) + i, values);
    } else {
      Load(static_cast<const float*>(data) + i, values);
    }
  }
};

// Whether every row of every tensor starts on 16 bytes and is a multiple of kVector long.
inline bool FitsVectors(int64_t row_size, std::initializer_list<const Tensor*> tensors) {
  if (row_size % kVector != 0) return false;
  for (const Tensor* tensor : tensors) {
    if (reinterpret_cast<uintptr_t>(tensor->data()) % 16 != 0) return false;
    if (tensor->rank() > 1 && tensor->row_stride() % kVector != 0) return false;
  }
  return true;
}

__device__ inline float WarpSum(float value) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value += __shfl_xor_sync(0xffffffffu, value, lanes);
  }
  return value;
}

}  // namespace quire::cuda
