// AVX2 with FMA: 6x16 tiles; bfloat16 is widened in registers.
#include <immintrin.h>

#include <type_traits>

#include "kernels/base/tensor.h"
#include "kernels/cpu/gemm/compression.h"
#include "kernels/cpu/gemm/gemm_kernel.h"
#include "kernels/cpu/gemm/packing.h"

#pragma GCC target("avx2,fma")
#include "kernels/cpu/gemm/gemm_kernel-inl.h"

namespace quire::cpu {

namespace {

struct ExpanderMasks {
  alignas(32) uint8_t code[32];
  alignas(32) uint32_t odd[8];
};

constexpr ExpanderMasks MakeExpanderMasks() {
  ExpanderMasks masks = {};
  for (uint8_t& byte : masks.code) byte = 0x0F;
  for (uint32_t& word : masks.odd) word = 0xffff0000u;
  return masks;
}

constexpr ExpanderMasks kExpanderMasks = MakeExpanderMasks();

// Expands compressed weights (compression.h). Sums take all registers, and the compiler would
// rather put sums aside than constants: it must not know that these are the same for each step.
class ExpanderAvx2 {
 public:
  using Words = __m256i;

  explicit ExpanderAvx2(const CompressedPanel& panel) : panel_(&panel), masks_(&kExpanderMasks) {
    asm("" : "+r"(panel_), "+r"(masks_));
  }

  // Parts 0 and 1 are the even and odd vectors of the first half of a step, 2 and 3 of the second.
  static constexpr int Place(int part, int c) { return 4 * (part / 2) + part % 2 + 2 * c; }

  template <int kPart>
  inline __attribute__((always_inline)) void Part(const char* step, Words* out) const {
    asm volatile("" : : : "memory");
    Words codes = Load(step + 128 + 32 * (kPart % 2));
    if constexpr (kPart >= 2) codes = _mm256_srli_epi16(codes, 4);
    codes = _mm256_and_si256(codes, Load(masks_->code));
    const Words table = _mm256_broadcastsi128_si256(
        _mm_load_si128(reinterpret_cast<const __m128i*>(panel_->upper)));
    const Words upper = _mm256_shuffle_epi8(table, codes);
    const Words lower = Load(step + 32 * kPart);
    out[0] = _mm256_unpacklo_epi8(lower, upper);
    out[1] = _mm256_unpackhi_epi8(lower, upper);
  }

  // The second elements of stored pairs, as float32.
  __m256 LoadOdd(const char* p) const {
    asm volatile("" : : : "memory");
    return (__m256)_mm256_and_si256(Load(p), Load(masks_->odd));
  }

  static Words Load(const void* p) { return _mm256_loadu_si256(static_cast<const Words*>(p)); }
  static void Store(char* p, Words words) {
    _mm256_storeu_si256(reinterpret_cast<Words*>(p), words);
  }

 private:
  const CompressedPanel* panel_;
  const ExpanderMasks* masks_;
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

constexpr TileSet kAvx2F32Tiles = MakeTileSet<Avx2, Elements::kF32, 6>();
constexpr TileSet kAvx2Bf16Tiles = MakeTileSet<Avx2, Elements::kBf16, 6>();

}  // namespace quire::cpu
