// UTF-8 and the character classes of Unicode 16.0, the version that Hugging Face tokenizers split
// by. Pure functions over constant tables; any thread. Text called "valid" was checked by
// FindInvalidUtf8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

inline constexpr char32_t kNumCodePoints = 0x110000;
inline constexpr char32_t kReplacementCharacter = 0xFFFD;

// Bits of a character's classes.
enum CharClass : uint8_t {
  kLetter = 1,        // \p{L}
  kNumber = 2,        // \p{N}
  kSpace = 4,         // White_Space, which is \s
  kAccent = 8,        // what the normalizer StripAccents strips
  kPunctuation = 16,  // what the pre-tokenizer Punctuation splits off
  kWord = 32,         // \w: alphabetic, marks, decimal numbers, connectors, join controls
};

// The CharClass bits of every code point, [kNumCodePoints]. Built on first use.
const uint8_t* CharClasses();

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

void AppendUtf8(char32_t code_point, std::string* out);

// What the first bytes of a text are.
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

// Replaces in valid `text` the characters that a library older than Unicode 16.0 may put in other
// classes by old characters of the same class and length, so that the library splits as
// Unicode 16.0 says and every offset holds. Returns false, leaving `out` alone, when there are
// none.
bool ReplaceRecentCharacters(std::string_view text, std::string* out);

// Whether normal forms leave the character alone because the reference's (Unicode 9.0) do not know
// it.
bool IsInertInNormalForms(char32_t code_point);

// The small letter of a capital that is newer than Unicode 14.0, or nothing for other characters.
std::optional<char32_t> SmallLetterOfRecentCapital(char32_t code_point);

}  // namespace quire
