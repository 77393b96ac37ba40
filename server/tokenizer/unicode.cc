#include "server/tokenizer/unicode.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "server/tokenizer/unicode_tables.h"

namespace quire {
namespace {

bool IsContinuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

// The range that the second byte of a character may have, which shuts out overlong forms,
// surrogates and code points past U+10FFFF.
struct ByteRange {
  uint8_t first;
  uint8_t last;
};
ByteRange SecondByteRange(uint8_t lead) {
  switch (lead) {
    case 0xE0:
      return {0xA0, 0xBF};
    case 0xED:
      return {0x80, 0x9F};
    case 0xF0:
      return {0x90, 0xBF};
    case 0xF4:
      return {0x80, 0x8F};
    default:
      return {0x80, 0xBF};
  }
}

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

DecodedChar DecodeCharBefore(const char* end) {
  const char* start = end - 1;
  while (IsContinuation(static_cast<uint8_t>(*start))) --start;
  return DecodeChar(start);
}

void AppendUtf8(char32_t code_point, std::string* out) {
  const auto put = [out](char32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

Utf8Prefix ClassifyUtf8Prefix(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {Utf8Start::kCharacter, 1};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Start::kInvalid, 1};
  const uint32_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() == 1) return {Utf8Start::kIncomplete, 1};
  const ByteRange second = SecondByteRange(lead);
  if (byte(1) < second.first || byte(1) > second.last) return {Utf8Start::kInvalid, 1};
  for (uint32_t i = 2; i < length; ++i) {
    if (i == text.size()) return {Utf8Start::kIncomplete, i};
    if (!IsContinuation(byte(i))) return {Utf8Start::kInvalid, i};
  }
  return {Utf8Start::kCharacter, length};
}

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080;
  size_t pos = 0;
  while (pos < text.size()) {
    uint64_t word;
    while (pos + sizeof(word) <= text.size()) {
      std::memcpy(&word, text.data() + pos, sizeof(word));
      if (word & kHighBits) break;
      pos += sizeof(word);
    }
    if (pos == text.size()) break;
    const Utf8Prefix prefix = ClassifyUtf8Prefix(text.substr(pos));
    if (prefix.kind != Utf8Start::kCharacter) return pos;
    pos += prefix.num_bytes;
  }
  return std::nullopt;
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
