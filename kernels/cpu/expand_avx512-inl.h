// Expands compressed weights (compression.h) with AVX-512. Included by its two files after their
// target pragmas; everything is in an anonymous namespace, see gemm_tile-inl.h.

namespace quire::cpu {
namespace {  // NOLINT(google-build-namespaces): one copy per instruction set, see above

class ExpanderAvx512 {
 public:
  using Words = __m512i;

  explicit ExpanderAvx512(const CompressedPanel& panel)
      : high_(Table(panel.high)), low_(Table(panel.low)) {}

  // The first or second 64 weights of a step, in order.
  template <int kHalf>
  inline __attribute__((always_inline)) void Half(const char* step, Words* out) const {
    constexpr int kOrAnd = 0xF8;  // a | (b & c)
    Words codes = _mm512_loadu_si512(step + 128);
    if constexpr (kHalf == 1) codes = _mm512_srli_epi16(codes, 4);
    codes = _mm512_and_si512(codes, _mm512_set1_epi8(0x0F));
    const Words rest = _mm512_loadu_si512(step + 64 * kHalf);
    const Words high = _mm512_ternarylogic_epi32(_mm512_shuffle_epi8(high_, codes), rest,
                                                 _mm512_set1_epi8(static_cast<char>(0x80)), kOrAnd);
    const Words low = _mm512_ternarylogic_epi32(_mm512_shuffle_epi8(low_, codes), rest,
                                                _mm512_set1_epi8(0x7F), kOrAnd);
    out[0] = _mm512_unpacklo_epi8(low, high);
    out[1] = _mm512_unpackhi_epi8(low, high);
  }

  static void Store(char* p, Words words) { _mm512_storeu_si512(p, words); }

 private:
  // Masked by nothing: GCC 12 warns of the plain intrinsic's own code.
  static Words Table(const uint8_t* bytes) {
    return _mm512_maskz_broadcast_i32x4(0xFFFF,
                                        _mm_load_si128(reinterpret_cast<const __m128i*>(bytes)));
  }

  const Words high_;
  const Words low_;
};

}  // namespace
}  // namespace quire::cpu
