// UTF-8: characters from bytes and back, in text that is known to be valid and in text that may be
// anything. Pure functions; any thread. Text called "valid" was checked by FindInvalidUtf8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

inline constexpr char32_t kNumCodePoints = 0x110000;
inline constexpr char32_t kReplacementCharacter = 0xFFFD;

// One character and the number of bytes that spell it.
struct DecodedChar {
  char32_t code_point;
  uint32_t num_bytes;
};

// The character that starts at `text`, which must be the start of a character of valid UTF-8.
inline DecodedChar DecodeChar(const char* text) {
  const auto byte = [text](int i) { return static_cast<char32_t>(static_cast<uint8_t>(text[i])); };
  const char32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead < 0xF0) {
    return {(lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  }
  return {(lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          4};
}

// The character that ends just before `end`, in valid UTF-8 with at least one character before
// `end`.
DecodedChar DecodeCharBefore(const char* end);

// Nothing for a number that is no code point. Surrogates, which no valid text has, get the three
// bytes that they would take.
void AppendUtf8(char32_t code_point, std::string* out);

// The kind of the first bytes of a text.
enum class Utf8Start {
  kCharacter,   // a whole character of `num_bytes`
  kIncomplete,  // `num_bytes`, all there is, could be the start of a character
  kInvalid,     // `num_bytes` that cannot be part of any character (the maximal subpart)
};
struct Utf8Prefix {
  Utf8Start kind;
  uint32_t num_bytes;
};
// Classifies the start of `text`, which is not empty.
Utf8Prefix ClassifyUtf8Prefix(std::string_view text);

// The offset of the first byte that is not part of a valid character, if there is one.
std::optional<size_t> FindInvalidUtf8(std::string_view text);
inline bool IsValidUtf8(std::string_view text) { return !FindInvalidUtf8(text).has_value(); }

// Walks through text that need not be valid: a byte that is part of no valid character counts as a
// character by itself, so nothing here can fail.
struct Character {
  int32_t code;  // -1 for a byte that is not UTF-8
  size_t size;   // bytes it takes, at least 1
};

// The character that starts at `offset`, which must be inside `text`.
Character CharacterAt(std::string_view text, size_t offset);

// Offset of the character that ends just before `end` (> 0).
size_t PreviousCharacter(std::string_view text, size_t end);

size_t CountCharacters(std::string_view text);

// Byte offset of the `index`-th character; text.size() if there are fewer.
size_t OffsetOfCharacter(std::string_view text, size_t index);

}  // namespace quire
