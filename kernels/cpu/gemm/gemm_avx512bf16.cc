// AVX-512 with vdpbf16ps, which multiplies pairs of bfloat16 and adds in float32: 14x32 tiles.
#include <immintrin.h>

#include <cstring>
#include <type_traits>

#include "kernels/base/tensor.h"
#include "kernels/cpu/gemm/compression.h"
#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/gemm/packing.h"

#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16,fma")
#include "kernels/cpu/gemm/expand_avx512-inl.h"
#include "kernels/cpu/gemm/gemm_kernel-inl.h"

namespace quire::cpu {

namespace {

struct Avx512Bf16 {
  using Floats = __m512;
  using Pairs = __m512bh;
  using Expander = ExpanderAvx512;
  static constexpr int kLanes = 16;
  static constexpr int kNumRegisters = 32;
  static constexpr bool kBf16Pairs = true;

  static Floats Zero() { return _mm512_setzero_ps(); }
  static Floats Load(const void* p) { return _mm512_loadu_ps(p); }
  static void Store(float* p, Floats v) { _mm512_storeu_ps(p, v); }
  static Pairs LoadPairs(const void* p) { return (Pairs)_mm512_loadu_si512(p); }
  static Pairs BroadcastPair(const void* p) {
    int x;
    std::memcpy(&x, p, sizeof(x));
    return (Pairs)_mm512_set1_epi32(x);
  }
  static Floats MulAddPairs(Pairs a, Pairs b, Floats c) { return _mm512_dpbf16_ps(c, a, b); }
};

}  // namespace

constexpr TileSet kAvx512PairsBf16Tiles = MakeTileSet<Avx512Bf16, Elements::kBf16, 14>();

}  // namespace quire::cpu
