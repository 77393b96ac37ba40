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
  kAccent = 8,        // what the normalizer StripAccents strips
  kPunctuation = 16,  // what the pre-tokenizer Punctuation splits off
  kWord = 32,         // \w: alphabetic, marks, decimal numbers, connectors, join controls
};

// The CharClass bits of every code point, [kNumCodePoints] of utf8.h. Built on first use.
const uint8_t* CharClasses();

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
