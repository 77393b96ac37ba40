// AVX2 with FMA: 6x16 tiles; bfloat16 is widened in registers.
#include <immintrin.h>

#include "kernels/base/tensor.h"
#include "kernels/cpu/gemm_kernel.h"
#include "kernels/cpu/packing.h"

#pragma GCC target("avx2,fma")
#include "kernels/cpu/gemm_kernel-inl.h"

namespace quire::cpu {

namespace {

struct Avx2 {
  using Floats = __m256;
  static constexpr int kLanes = 8;
  static constexpr int kNumRegisters = 16;
  static constexpr bool kBf16Pairs = false;

  static Floats Zero() { return _mm256_setzero_ps(); }
  static Floats Load(const void* p) { return _mm256_loadu_ps(static_cast<const float*>(p)); }
  static void Store(float* p, Floats v) { _mm256_storeu_ps(p, v); }
  static Floats Broadcast(const void* p) {
    return _mm256_broadcast_ss(static_cast<const float*>(p));
  }
  static Floats MulAdd(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
  static Floats LoadEven(const void* p) { return (Floats)((__v8su)Load(p) << 16); }
  static Floats LoadOdd(const void* p) { return (Floats)((__v8su)Load(p) & 0xffff0000u); }
};

}  // namespace

constexpr GemmKernel kGemmAvx2 = MakeGemmKernel<Avx2, 6>();

}  // namespace quire::cpu
