// What readers see as one character: extended grapheme clusters, by the rules (UAX #29) and the
// data of Unicode 17.0, the version that the reference's Precompiled normalizer cuts by. Pure
// functions over constant tables; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quire {

// What the rules tell apart. The tables have those that a script could need to know; the syllables
// of Hangul are computed.
enum class GraphemeClass : uint8_t {
  kOther,
  kControl,  // carriage return and line feed included
  kExtend,
  kNonJoiner,  // U+200C, which extends but no Indic conjunct goes on after it
  kLinker,     // extends, and joins Indic consonants
  kJoiner,     // U+200D
  kSpacingMark,
  kPrepend,
  kRegional,  // half a flag
  kPictographic,
  kConsonant,  // Indic, of a script that has linkers
  kHangulL,
  kHangulV,
  kHangulT,
  kHangulLV,
  kHangulLVT,
};

GraphemeClass GraphemeClassOf(char32_t code_point);

// The number of bytes of the cluster that valid `text`, which is not empty, starts with, when no
// cluster reaches across its start.
size_t GraphemeBytes(std::string_view text);

}  // namespace quire
