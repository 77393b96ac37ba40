#include "server/text/utf8.h"

#include <cstring>

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

}  // namespace

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
  } else if (code_point < kNumCodePoints) {
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

Character CharacterAt(std::string_view text, size_t offset) {
  if (static_cast<uint8_t>(text[offset]) < 0x80) return {text[offset], 1};
  const Utf8Prefix prefix = ClassifyUtf8Prefix(text.substr(offset));
  if (prefix.kind != Utf8Start::kCharacter) return {-1, 1};
  return {static_cast<int32_t>(DecodeChar(text.data() + offset).code_point), prefix.num_bytes};
}

size_t PreviousCharacter(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && IsContinuation(static_cast<uint8_t>(text[begin]))) --begin;
  return begin + CharacterAt(text, begin).size == end ? begin : end - 1;
}

size_t CountCharacters(std::string_view text) {
  size_t count = 0;
  for (size_t at = 0; at < text.size(); at += CharacterAt(text, at).size) ++count;
  return count;
}

size_t OffsetOfCharacter(std::string_view text, size_t index) {
  size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += CharacterAt(text, at).size;
  return at;
}

}  // namespace quire
