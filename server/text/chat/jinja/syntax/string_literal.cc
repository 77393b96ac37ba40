#include "server/text/chat/jinja/syntax/string_literal.h"

#include <cstdint>

#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/utf8.h"

namespace quire::jinja {
namespace {

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool IsOctalDigit(char c) { return c >= '0' && c <= '7'; }

// `digits` hex digits of a code point.
absl::StatusOr<int32_t> HexCode(std::string_view digits, size_t count) {
  if (digits.size() < count) return Error("an escape in a string is cut off");
  int64_t code = 0;
  for (const char c : digits.substr(0, count)) {
    const int digit = HexDigit(c);
    if (digit < 0) return Error("an escape in a string needs hex digits");
    code = code * 16 + digit;
  }
  if (code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF)) {
    return Error("an escape in a string is not a Unicode character");
  }
  return static_cast<int32_t>(code);
}

// The character of a one-letter escape, or '\0'.
char SimpleEscape(char letter) {
  static constexpr std::string_view kLetters = "\\'\"abfnrtv";
  static constexpr std::string_view kCharacters = "\\'\"\a\b\f\n\r\t\v";
  const size_t index = kLetters.find(letter);
  return index == std::string_view::npos ? '\0' : kCharacters[index];
}

// Appends the escape whose letter stands at content[at]; returns what follows it.
absl::StatusOr<size_t> AppendEscape(std::string_view content, size_t at, std::string* out) {
  const char letter = content[at];
  if (letter == '\n') return at + 1;
  if (const char simple = SimpleEscape(letter); simple != '\0') {
    out->push_back(simple);
    return at + 1;
  }
  if (IsOctalDigit(letter)) {
    int32_t code = 0;
    const size_t end = at + 3;
    for (; at < end && at < content.size() && IsOctalDigit(content[at]); ++at)
      code = code * 8 + (content[at] - '0');
    AppendUtf8(static_cast<char32_t>(code), out);
    return at;
  }
  const size_t num_digits = letter == 'x' ? 2 : (letter == 'u' ? 4 : (letter == 'U' ? 8 : 0));
  if (num_digits > 0) {
    ASSIGN_OR_RETURN(const int32_t code, HexCode(content.substr(at + 1), num_digits));
    AppendUtf8(static_cast<char32_t>(code), out);
    return at + 1 + num_digits;
  }
  if (letter == 'N') return Error("\\N{...} in a string is not supported: write the character");
  // Python keeps what it does not know.
  absl::StrAppend(out, "\\", std::string(1, letter));
  return at + 1;
}

}  // namespace

absl::StatusOr<std::string> UnescapeString(std::string_view content) {
  std::string text;
  text.reserve(content.size());
  for (size_t at = 0; at < content.size();) {
    if (content[at] != '\\' || at + 1 == content.size()) {
      text.push_back(content[at++]);
      continue;
    }
    ASSIGN_OR_RETURN(at, AppendEscape(content, at + 1, &text));
  }
  return text;
}

}  // namespace quire::jinja
