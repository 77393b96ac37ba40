// Expands compressed weights (compression.h) with AVX-512. Included by those who need it after
// their target pragmas; everything is in an anonymous namespace, see gemm_tile-inl.h.

namespace quire::cpu {
namespace {  // NOLINT(google-build-namespaces): one copy per instruction set, see above

class ExpanderAvx512 {
 public:
  using Words = __m512i;

  explicit ExpanderAvx512(const CompressedPanel& panel)
      // Masked by nothing: GCC 12 warns of the plain intrinsic's own code.
      : upper_(_mm512_maskz_broadcast_i32x4(
            0xFFFF, _mm_load_si128(reinterpret_cast<const __m128i*>(panel.upper)))) {}

  // A part is 64 weights, in order.
  static constexpr int Place(int part, int c) { return 2 * part + c; }

  template <int kPart>
  inline __attribute__((always_inline)) void Part(const char* step, Words* out) const {
    Words codes = Load(step + 128);
    if constexpr (kPart == 1) codes = _mm512_srli_epi16(codes, 4);
    codes = _mm512_and_si512(codes, _mm512_set1_epi8(0x0F));
    const Words upper = _mm512_shuffle_epi8(upper_, codes);
    const Words lower = Load(step + 64 * kPart);
    out[0] = _mm512_unpacklo_epi8(lower, upper);
    out[1] = _mm512_unpackhi_epi8(lower, upper);
  }

  // The second elements of stored pairs, as float32.
  static __m512 LoadOdd(const char* p) {
    return (__m512)_mm512_and_si512(Load(p), _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
  }

  static Words Load(const char* p) { return _mm512_loadu_si512(p); }
  static void Store(char* p, Words words) { _mm512_storeu_si512(p, words); }

 private:
  const Words upper_;
};

}  // namespace
}  // namespace quire::cpu
