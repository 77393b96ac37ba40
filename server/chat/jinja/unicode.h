// Code points and the Unicode properties that Python's str methods use (utf8proc underneath). Text
// is UTF-8; a byte that is not valid UTF-8 counts as one character, so nothing here can fail. Pure
// functions, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quire::jinja {

struct Character {
  int32_t code;  // -1 for a byte that is not UTF-8.
  size_t size;   // Bytes it takes, at least 1.
};

// The character that starts at `offset`, which must be inside `text`.
Character CharacterAt(std::string_view text, size_t offset);

// Offset of the character that ends just before `end` (> 0).
size_t PreviousCharacter(std::string_view text, size_t end);

// First offset >= `from` where `needle` stands in `text`, or npos. Linear time on any input.
size_t FindBytes(std::string_view text, std::string_view needle, size_t from);

// Last offset where `needle` stands in `text`, or npos. Linear time on any input.
size_t FindLastBytes(std::string_view text, std::string_view needle);

size_t CountCharacters(std::string_view text);

// Byte offset of the `index`-th character; text.size() if there are fewer.
size_t OffsetOfCharacter(std::string_view text, size_t index);

bool IsValidUtf8(std::string_view text);

void AppendUtf8(int32_t code, std::string* out);

// str.isspace(), str.isalpha(), ... of one character.
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

}  // namespace quire::jinja
