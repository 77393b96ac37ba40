// AVX-512 without its bfloat16 dot product: 14x32 tiles; bfloat16 is widened in registers.
#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "kernels/base/tensor.h"
#include "kernels/cpu/gemm/compression.h"
#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/gemm/packing.h"

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,fma")
#include "kernels/cpu/gemm/expand_avx512-inl.h"
#include "kernels/cpu/gemm/gemm_kernel-inl.h"

namespace quire::cpu {

namespace {

struct Avx512 {
  using Floats = __m512;
  using Expander = ExpanderAvx512;
  static constexpr int kLanes = 16;
  static constexpr int kNumRegisters = 32;
  static constexpr bool kBf16Pairs = false;

  static Floats Zero() { return _mm512_setzero_ps(); }
  static Floats Load(const void* p) { return _mm512_loadu_ps(p); }
  static void Store(float* p, Floats v) { _mm512_storeu_ps(p, v); }
  static Floats Broadcast(const void* p) {
    float x;
    std::memcpy(&x, p, sizeof(x));
    return _mm512_set1_ps(x);
  }
  static Floats MulAdd(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
  static Floats Even(__m512i pairs) { return (Floats)((__v16su)pairs << 16); }
  static Floats Odd(__m512i pairs) { return (Floats)((__v16su)pairs & 0xffff0000u); }
  static Floats LoadEven(const void* p) { return Even((__m512i)Load(p)); }
  static Floats LoadOdd(const void* p) { return Odd((__m512i)Load(p)); }
};

}  // namespace

constexpr TileSet kAvx512F32Tiles = MakeTileSet<Avx512, Elements::kF32, 14>();
constexpr TileSet kAvx512Bf16Tiles = MakeTileSet<Avx512, Elements::kBf16, 14>();

}  // namespace quire::cpu
