#include "server/chat/jinja/unicode.h"

#include <string.h>
#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "server/chat/jinja/special_case.h"

namespace quire::jinja {
namespace {

bool IsContinuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

std::string Utf8(int32_t code) {
  std::string out;
  AppendUtf8(code, &out);
  return out;
}

constexpr int32_t kDottedCapitalI = 0x130;  // Its lower case is "i" and a combining dot.

// Null for a character whose cases are single characters.
const SpecialCase* FindSpecialCase(int32_t code) {
  const SpecialCase* end = kSpecialCases + kNumSpecialCases;
  const SpecialCase* found =
      std::lower_bound(kSpecialCases, end, code,
                       [](const SpecialCase& special, int32_t c) { return special.code < c; });
  return found != end && found->code == code ? found : nullptr;
}

bool IsCased(int32_t code) {
  return IsUpper(code) || IsLower(code) ||
         (code >= 0 && utf8proc_category(code) == UTF8PROC_CATEGORY_LT);
}

// Marks, signs and the punctuation within words, which do not end a word.
bool IsCaseIgnorable(int32_t code) {
  static constexpr int32_t kWithinWords[] = {0x27,   0x2E,   0x3A,   0xB7,   0x387,  0x55F,
                                             0x5F4,  0x2018, 0x2019, 0x2024, 0x2027, 0xFE13,
                                             0xFE52, 0xFE55, 0xFF07, 0xFF0E, 0xFF1A};
  if (code < 0) return false;
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return std::binary_search(std::begin(kWithinWords), std::end(kWithinWords), code);
  }
}

}  // namespace

Character CharacterAt(std::string_view text, size_t offset) {
  const unsigned char first = static_cast<unsigned char>(text[offset]);
  if (first < 0x80) return {first, 1};
  utf8proc_int32_t code = -1;
  const utf8proc_ssize_t size =
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + offset,
                       static_cast<utf8proc_ssize_t>(text.size() - offset), &code);
  if (size <= 0) return {-1, 1};
  return {code, static_cast<size_t>(size)};
}

size_t PreviousCharacter(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && end - begin < 4 && IsContinuation(text[begin])) --begin;
  return begin + CharacterAt(text, begin).size == end ? begin : end - 1;
}

size_t FindBytes(std::string_view text, std::string_view needle, size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (needle.empty()) return from;
  // memmem, unlike string_view::find, is linear in the worst case.
  const void* found = memmem(text.data() + from, text.size() - from, needle.data(), needle.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<size_t>(static_cast<const char*>(found) - text.data());
}

size_t FindLastBytes(std::string_view text, std::string_view needle) {
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_needle(needle.rbegin(), needle.rend());
  const size_t found = FindBytes(reversed_text, reversed_needle, 0);
  return found == std::string_view::npos ? found : text.size() - found - needle.size();
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

bool IsValidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Character character = CharacterAt(text, at);
    if (character.code < 0) return false;
    at += character.size;
  }
  return true;
}

void AppendUtf8(int32_t code, std::string* out) {
  utf8proc_uint8_t buffer[4];
  const utf8proc_ssize_t size = utf8proc_encode_char(code, buffer);
  out->append(reinterpret_cast<const char*>(buffer),
              static_cast<size_t>(std::max<utf8proc_ssize_t>(size, 0)));
}

bool IsSpace(int32_t code) {
  if (code < 0x80) return (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x20);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool IsAlpha(int32_t code) {
  if (code < 0) return false;
  const utf8proc_category_t category = utf8proc_category(code);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool IsDecimal(int32_t code) {
  return code >= 0 && utf8proc_category(code) == UTF8PROC_CATEGORY_ND;
}

bool IsUpper(int32_t code) { return code >= 0 && utf8proc_isupper(code) != 0; }

bool IsLower(int32_t code) { return code >= 0 && utf8proc_islower(code) != 0; }

bool HasOnlyCase(std::string_view text, bool upper) {
  bool found = false;
  for (size_t at = 0; at < text.size();) {
    const Character character = CharacterAt(text, at);
    if (upper ? IsLower(character.code) : IsUpper(character.code)) return false;
    found = found || (upper ? IsUpper(character.code) : IsLower(character.code));
    at += character.size;
  }
  return found;
}

bool IsPrintable(int32_t code) {
  if (code < 0) return false;
  if (code < 0x7F) return code >= 0x20;
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

std::string ToUpper(int32_t code) {
  const SpecialCase* special = FindSpecialCase(code);
  return special != nullptr ? std::string(special->upper) : Utf8(utf8proc_toupper(code));
}

std::string ToLower(int32_t code) {
  return code == kDottedCapitalI ? "i\xCC\x87" : Utf8(utf8proc_tolower(code));
}

std::string ToTitle(int32_t code) {
  const SpecialCase* special = FindSpecialCase(code);
  return special != nullptr ? std::string(special->title) : Utf8(utf8proc_totitle(code));
}

bool EndsGreekWord(std::string_view text, size_t begin, size_t end) {
  int32_t before = -1;
  while (begin > 0) {
    begin = PreviousCharacter(text, begin);
    before = CharacterAt(text, begin).code;
    if (!IsCaseIgnorable(before)) break;
  }
  if (!IsCased(before) || IsCaseIgnorable(before)) return false;
  while (end < text.size()) {
    const Character after = CharacterAt(text, end);
    if (!IsCaseIgnorable(after.code)) return !IsCased(after.code);
    end += after.size;
  }
  return true;
}

}  // namespace quire::jinja
