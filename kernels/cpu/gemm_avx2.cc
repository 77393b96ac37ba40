// AVX2 with FMA: 6x16 tiles; bfloat16 is widened in registers.
#include <immintrin.h>

#include <type_traits>

#include "kernels/base/tensor.h"
#include "kernels/cpu/compression.h"
#include "kernels/cpu/gemm_kernel.h"
#include "kernels/cpu/packing.h"

#pragma GCC target("avx2,fma")
#include "kernels/cpu/gemm_kernel-inl.h"

namespace quire::cpu {

namespace {

// Expands compressed weights (compression.h).
class ExpanderAvx2 {
 public:
  using Words = __m256i;

  explicit ExpanderAvx2(const CompressedPanel& panel)
      : high_(Table(panel.high)), low_(Table(panel.low)) {}

  // The first or second 64 weights of a step, in order.
  template <int kHalf>
  inline __attribute__((always_inline)) void Half(const char* step, Words* out) const {
    const Words sign = _mm256_set1_epi8(static_cast<char>(0x80));
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      Words codes = Load(step + 128 + 32 * i);
      if constexpr (kHalf == 1) codes = _mm256_srli_epi16(codes, 4);
      codes = _mm256_and_si256(codes, _mm256_set1_epi8(0x0F));
      const Words rest = Load(step + 64 * kHalf + 32 * i);
      const Words high =
          _mm256_or_si256(_mm256_shuffle_epi8(high_, codes), _mm256_and_si256(sign, rest));
      const Words low =
          _mm256_or_si256(_mm256_shuffle_epi8(low_, codes), _mm256_andnot_si256(sign, rest));
      out[i] = _mm256_unpacklo_epi8(low, high);
      out[2 + i] = _mm256_unpackhi_epi8(low, high);
    }
  }

  static void Store(char* p, Words words) {
    _mm256_storeu_si256(reinterpret_cast<Words*>(p), words);
  }

 private:
  static Words Load(const char* p) { return _mm256_loadu_si256(reinterpret_cast<const Words*>(p)); }
  static Words Table(const uint8_t* bytes) {
    return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(bytes)));
  }

  const Words high_;
  const Words low_;
};

struct Avx2 {
  using Floats = __m256;
  using Expander = ExpanderAvx2;
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
  static Floats Even(__m256i pairs) { return (Floats)((__v8su)pairs << 16); }
  static Floats Odd(__m256i pairs) { return (Floats)((__v8su)pairs & 0xffff0000u); }
  static Floats LoadEven(const void* p) { return Even((__m256i)Load(p)); }
  static Floats LoadOdd(const void* p) { return Odd((__m256i)Load(p)); }
};

}  // namespace

constexpr GemmKernel kGemmAvx2 = MakeGemmKernel<Avx2, 6>();

}  // namespace quire::cpu
