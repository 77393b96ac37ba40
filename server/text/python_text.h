// The answers of Python's str methods about characters and words (utf8proc underneath), as chat
// templates expect them. A code is a code point, or -1 for a byte that is not UTF-8 (CharacterAt of
// utf8.h). Pure functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire {

// str.isspace(), str.isalpha(), ... for one character.
bool IsSpace(int32_t code);
bool IsAlpha(int32_t code);
bool IsDecimal(int32_t code);
bool IsUpper(int32_t code);
bool IsLower(int32_t code);

// str.isupper() or str.islower(): it has a cased character and none of the other case.
bool HasOnlyCase(std::string_view text, bool upper);

// True where repr() shows the character itself.
bool IsPrintable(int32_t code);

// UTF-8 of the upper or lower case form.
std::string ToUpper(int32_t code);
std::string ToLower(int32_t code);

// Whether a capital sigma at [begin, end) ends a word: its lower case is then another one. Only
// characters of `text` count.
bool EndsGreekWord(std::string_view text, size_t begin, size_t end);

// Case of ASCII-only names is not enough for str.title(): digraphs have a third form.
std::string ToTitle(int32_t code);

}  // namespace quire
