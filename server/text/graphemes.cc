#include "server/text/graphemes.h"

#include <algorithm>

#include "server/text/grapheme_tables.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

using Class = GraphemeClass;

constexpr char32_t kFirstSyllable = 0xAC00;
constexpr char32_t kLastSyllable = 0xD7A3;
constexpr char32_t kSyllablesPerLV = 28;

bool Extends(Class c) {
  return c == Class::kExtend || c == Class::kNonJoiner || c == Class::kLinker ||
         c == Class::kJoiner;
}

bool HangulGoesOn(Class before, Class after) {
  if (before == Class::kHangulL) {
    return after == Class::kHangulL || after == Class::kHangulV || after == Class::kHangulLV ||
           after == Class::kHangulLVT;
  }
  if (before == Class::kHangulLV || before == Class::kHangulV)
    return after == Class::kHangulV || after == Class::kHangulT;
  return (before == Class::kHangulLVT || before == Class::kHangulT) && after == Class::kHangulT;
}

// What the rules must know of a cluster besides its last character.
struct ClusterState {
  Class last = Class::kOther;
  bool after_pictograph = false;  // a pictograph, then only extenders, of them one joiner (GB11)
  bool after_consonant = false;   // a consonant, then only extenders (GB9c)
  bool has_linker = false;        // one of those extenders links
  bool odd_regionals = false;     // an odd number of regional indicators (GB12)

  void Add(Class c) {
    if (c == Class::kPictographic) {
      after_pictograph = true;
    } else if (!Extends(c) || last == Class::kJoiner) {
      after_pictograph = false;
    }
    if (c == Class::kConsonant) {
      after_consonant = true;
      has_linker = false;
    } else if (!Extends(c) || c == Class::kNonJoiner) {
      after_consonant = false;
    }
    has_linker = has_linker || c == Class::kLinker;
    odd_regionals = c == Class::kRegional && !odd_regionals;
    last = c;
  }

  bool GoesOnWith(Class next) const {
    if (last == Class::kControl || next == Class::kControl) return false;
    if (Extends(next) || next == Class::kSpacingMark || last == Class::kPrepend) return true;
    if (next == Class::kConsonant) return after_consonant && has_linker;
    if (next == Class::kPictographic) return after_pictograph && last == Class::kJoiner;
    if (next == Class::kRegional) return odd_regionals;
    return HangulGoesOn(last, next);
  }
};

}  // namespace

GraphemeClass GraphemeClassOf(char32_t code_point) {
  if (code_point >= kFirstSyllable && code_point <= kLastSyllable) {
    return (code_point - kFirstSyllable) % kSyllablesPerLV == 0 ? Class::kHangulLV
                                                                : Class::kHangulLVT;
  }
  const GraphemeRange* end = kGraphemeRanges + kNumGraphemeRanges;
  const GraphemeRange* range =
      std::lower_bound(kGraphemeRanges, end, code_point,
                       [](const GraphemeRange& r, char32_t c) { return r.last < c; });
  return range != end && range->first <= code_point ? range->grapheme_class : Class::kOther;
}

size_t GraphemeBytes(std::string_view text) {
  if (text.starts_with("\r\n")) return 2;
  const auto is_ascii = [](char c) { return static_cast<uint8_t>(c) < 0x80; };
  if (is_ascii(text[0]) && (text.size() == 1 || is_ascii(text[1]))) return 1;
  ClusterState state;
  const DecodedChar first = DecodeChar(text.data());
  state.Add(GraphemeClassOf(first.code_point));
  size_t end = first.num_bytes;
  while (end < text.size()) {
    const DecodedChar c = DecodeChar(text.data() + end);
    const Class next = GraphemeClassOf(c.code_point);
    if (!state.GoesOnWith(next)) break;
    state.Add(next);
    end += c.num_bytes;
  }
  return end;
}

}  // namespace quire
