#include "server/text/python_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "server/text/special_case.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

std::string Utf8(int32_t code) {
  std::string out;
  AppendUtf8(static_cast<char32_t>(code), &out);
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

}  // namespace quire
