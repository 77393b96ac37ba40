#include "server/text/unicode.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "server/text/unicode_tables.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

// The range of a sorted table that holds `code_point`, or null.
template <typename Range>
const Range* FindRange(const Range* table, size_t size, char32_t code_point) {
  const Range* range = std::lower_bound(table, table + size, code_point,
                                        [](const Range& r, char32_t c) { return r.last < c; });
  return range != table + size && range->first <= code_point ? range : nullptr;
}

}  // namespace

const uint8_t* CharClasses() {
  // Zero-initialised: only the pages of assigned code points ever take memory.
  static std::array<uint8_t, kNumCodePoints> classes;
  static const uint8_t* const table = [] {
    for (size_t i = 0; i < kNumClassRanges; ++i) {
      const ClassRange& range = kClassRanges[i];
      std::memset(classes.data() + range.first, range.classes, range.last - range.first + 1);
    }
    return classes.data();
  }();
  return table;
}

bool ReplaceRecentCharacters(std::string_view text, std::string* out) {
  bool replaced = false;
  for (size_t pos = 0; pos < text.size();) {
    // Every recent character takes three or four bytes.
    if (static_cast<uint8_t>(text[pos]) < 0xE0) {
      ++pos;
      continue;
    }
    const DecodedChar c = DecodeChar(text.data() + pos);
    const StandInRange* range = FindRange(kStandInRanges, kNumStandInRanges, c.code_point);
    if (range != nullptr) {
      if (!replaced) out->assign(text);
      replaced = true;
      std::string bytes;
      AppendUtf8(range->stand_in, &bytes);
      out->replace(pos, c.num_bytes, bytes);
    }
    pos += c.num_bytes;
  }
  return replaced;
}

bool IsInertInNormalForms(char32_t code_point) {
  return FindRange(kInertRanges, kNumInertRanges, code_point) != nullptr;
}

std::optional<char32_t> SmallLetterOfRecentCapital(char32_t code_point) {
  const CapitalRange* range = FindRange(kCapitalRanges, kNumCapitalRanges, code_point);
  if (range == nullptr) return std::nullopt;
  return static_cast<char32_t>(static_cast<int32_t>(code_point) + range->offset);
}

}  // namespace quire
