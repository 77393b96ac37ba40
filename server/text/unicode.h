// The character classes of Unicode 16.0, the version that Hugging Face tokenizers split by. Pure
// functions over constant tables; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quire {

// Bits of a character's classes.
enum CharClass : uint8_t {
  kLetter = 1,        // \p{L}
  kNumber = 2,        // \p{N}
  kSpace = 4,         // White_Space, which is \s
  kAccent = 8,        // the normalizer StripAccents strips it
  kPunctuation = 16,  // the pre-tokenizer Punctuation splits it off
  kWord = 32,         // \w: alphabetic, marks, decimal numbers, connectors, join controls
};

// The CharClass bits of every code point, [kNumCodePoints] of utf8.h. Built on first use.
const uint8_t* CharClasses();

// Replaces in valid `text` the characters that a library older than Unicode 16.0 may put in other
// classes. Old characters of the same class and length take their places, so that the library
// splits as Unicode 16.0 says and every offset holds. Returns false, without changing `out`, when
// there are none.
bool ReplaceRecentCharacters(std::string_view text, std::string* out);

// Whether normal forms keep the character as it is, because those of the reference (Unicode 9.0) do
// not know it.
bool IsInertInNormalForms(char32_t code_point);

// The small letter of a capital that is newer than Unicode 14.0, or nothing for other characters.
std::optional<char32_t> SmallLetterOfRecentCapital(char32_t code_point);

}  // namespace quire
