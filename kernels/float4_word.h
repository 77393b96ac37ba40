// Eight 4-bit floats in a word, so that a GPU needs few instructions to take them out: four pairs,
// each of a float in the lower and one in the upper half. Host and device code.
#pragma once

#include <cstdint>

namespace quire {

// Where a pair's bits are once it is taken out: in each half as in a bfloat16, the sign in front
// and the three others on both sides of the border between exponent and mantissa.
inline constexpr uint32_t kFloat4Mask = 0x81c081c0u;

// The floats of these two codes, where kFloat4Mask is.
constexpr uint32_t Float4Bits(uint32_t low, uint32_t high) {
  const auto place = [](uint32_t code) { return (code & 7) << 6 | (code & 8) << 12; };
  return place(low) | place(high) << 16;
}

// The pair numbered 0 to 3. No four shifts of the mask share out the 32 bits without an overlap
// (each pair would then be a shift and a mask), but three do; the bits of the last pair are those
// that are left, two at a time, exclusive or.
constexpr uint32_t Float4Pair(uint32_t word, int pair) {
  switch (pair) {
    case 0:
      return word & kFloat4Mask;
    case 1:
      return word << 6 & kFloat4Mask;
    case 2:
      return (word >> 4 | word << 28) & kFloat4Mask;
    default:
      return (word << 2 ^ word >> 6) & kFloat4Mask;
  }
}

// The word of these pairs (Float4Bits): the inverse of Float4Pair.
constexpr uint32_t Float4Word(const uint32_t (&pairs)[4]) {
  const uint32_t word = pairs[0] | pairs[1] >> 6 | pairs[2] << 4 | pairs[2] >> 28;
  // The bits that the remaining bits must change in the last pair. Its bits 7, 15, 23 and 31 depend
  // on each other, from the highest on.
  const uint32_t change = Float4Pair(word, 3) ^ pairs[3];
  uint32_t chain = change & 0x80808080u;
  chain ^= chain >> 8;
  chain ^= chain >> 16;
  return word | (change & 0x00400040u) >> 2 | (change & 0x01000100u) << 6 | chain >> 2;
}

}  // namespace quire
