// 8-bit floating-point numbers on a GPU (kernels/base/float8.h): the same bits as the host's, but
// that a NaN may lose its sign. One instruction for two numbers from sm_89 on, emulated before.
// Device code.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/base/dtype.h"

namespace quire::cuda {

// Storage of either format, told apart at run time: kernels branch once a tile or a vector, and
// there is no instance for each.
struct Float8Bits {
  uint8_t bits;
};

// Two or four numbers as float16, which holds both formats exactly; the first in the lower half.
template <__nv_fp8_interpretation_t kFormat>
__device__ __forceinline__ uint32_t WidenPair(uint32_t pair) {
  const __half2_raw wide =
      __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(pair), kFormat);
  return static_cast<uint32_t>(wide.x) | static_cast<uint32_t>(wide.y) << 16;
}
template <__nv_fp8_interpretation_t kFormat>
__device__ __forceinline__ void WidenQuad(uint32_t quad, uint32_t& low, uint32_t& high) {
  if constexpr (kFormat == __NV_E5M2) {  // the upper half of a float16
    low = __byte_perm(quad, 0, 0x1404);
    high = __byte_perm(quad, 0, 0x3424);
  } else {
#if __CUDA_ARCH__ >= 890
    asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %2;\n"
        "cvt.rn.f16x2.e4m3x2 %0, l;\ncvt.rn.f16x2.e4m3x2 %1, h;\n}\n"
        : "=r"(low), "=r"(high)
        : "r"(quad));
#else
    low = WidenPair<kFormat>(quad & 0xffff);
    high = WidenPair<kFormat>(quad >> 16);
#endif
  }
}

// function.operator()<kFormat>() for the format of a dtype.
template <typename Function>
__device__ __forceinline__ void DispatchFloat8(DType dtype, const Function& function) {
  if (dtype == DType::kF8E5M2) {
    function.template operator()<__NV_E5M2>();
  } else {
    function.template operator()<__NV_E4M3>();
  }
}

__device__ __forceinline__ float FloatOf(Float8Bits value, DType dtype) {
  const uint32_t wide =
      dtype == DType::kF8E5M2 ? uint32_t{value.bits} << 8 : WidenPair<__NV_E4M3>(value.bits);
  return __half2float(__ushort_as_half(static_cast<uint16_t>(wide)));
}

// Rounded to nearest even, at most the largest finite number; NaN stays NaN. The first value in the
// lower byte.
template <__nv_fp8_interpretation_t kFormat>
__device__ __forceinline__ uint32_t NarrowPair(float low, float high) {
  return __nv_cvt_float2_to_fp8x2(make_float2(low, high), __NV_SATFINITE, kFormat);
}

// Eight values to eight bytes, or one to one.
template <int kWidth>
__device__ inline void StoreFloat8(const float (&values)[kWidth], DType dtype, Float8Bits* to) {
  DispatchFloat8(dtype, [&]<__nv_fp8_interpretation_t kFormat>() {
    if constexpr (kWidth == 1) {
      to->bits = static_cast<uint8_t>(NarrowPair<kFormat>(values[0], 0.0f));
    } else {
      static_assert(kWidth == 8);
      uint2 raw;
      raw.x = NarrowPair<kFormat>(values[0], values[1]) | NarrowPair<kFormat>(values[2], values[3])
                                                              << 16;
      raw.y = NarrowPair<kFormat>(values[4], values[5]) | NarrowPair<kFormat>(values[6], values[7])
                                                              << 16;
      *reinterpret_cast<uint2*>(to) = raw;
    }
  });
}

}  // namespace quire::cuda
