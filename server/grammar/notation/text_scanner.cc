#include "server/grammar/notation/text_scanner.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "kernels/base/status_macros.h"
#include "server/grammar/notation/grammar_text.h"
#include "server/text/concat.h"
#include "server/text/utf8.h"

namespace quire {

absl::Status GrammarTextError(std::string_view text, size_t offset, std::string_view message) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const auto line = std::count(before.begin(), before.end(), '\n') + 1;
  const size_t line_begin = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
  const auto is_begin = [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; };
  const auto column =
      std::count_if(before.begin() + static_cast<ptrdiff_t>(line_begin), before.end(), is_begin) +
      1;
  return absl::InvalidArgumentError(Concat("line ", line, ", column ", column, ": ", message));
}

std::string_view TextScanner::Until(char last) const {
  const std::string_view line = rest().substr(0, rest().find('\n'));
  size_t size = line.find(last);
  size = std::min<size_t>(size == line.npos ? line.size() : size + 1, 40);
  while (size < line.size() && (static_cast<uint8_t>(line[size]) & 0xC0) == 0x80) --size;
  return line.substr(0, size);
}

void TextScanner::SkipSpace() {
  while (!at_end()) {
    const char c = Peek();
    if (c == '#' || (slashes_comment_ && IsNext("//"))) {
      offset_ = std::min(text_.find('\n', offset_), text_.size());
    } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
      ++offset_;
    } else {
      break;
    }
  }
}

bool TextScanner::IsFirstInLine() const {
  const size_t before = text_.substr(0, offset_).find_last_not_of(" \t\r");
  return before == text_.npos || text_[before] == '\n';
}

void TextScanner::SkipBlanks() {
  while (Peek() == ' ' || Peek() == '\t') ++offset_;
}

std::string_view TextScanner::TakeName() {
  const size_t begin = offset_;
  while (absl::ascii_isalnum(static_cast<unsigned char>(Peek())) || Peek() == '-' || Peek() == '_')
    ++offset_;
  return text_.substr(begin, offset_ - begin);
}

absl::StatusOr<uint32_t> TextScanner::TakeCount() {
  const size_t begin = offset_;
  uint32_t count = 0;
  for (; Peek() >= '0' && Peek() <= '9'; ++offset_) {
    if (count <= kMaxGrammarTextRepeats) count = count * 10 + static_cast<uint32_t>(Peek() - '0');
  }
  if (begin == offset_) return Error("a number of repeats is missing");
  if (count > kMaxGrammarTextRepeats) {
    return ErrorAt(begin,
                   Concat("the number of repeats is too large: at most ", kMaxGrammarTextRepeats));
  }
  return count;
}

absl::StatusOr<char32_t> TextScanner::TakeHex(size_t num_digits) {
  char32_t value = 0;
  for (size_t i = 0; i < num_digits; ++i, ++offset_) {
    const unsigned char c = static_cast<unsigned char>(Peek());
    if (!absl::ascii_isxdigit(c))
      return Error(Concat("a bad escape: it needs ", num_digits, " hexadecimal digits"));
    const int digit = c <= '9' ? c - '0' : absl::ascii_tolower(c) - 'a' + 10;
    value = value << 4 | static_cast<char32_t>(digit);
  }
  return value;
}

absl::StatusOr<char32_t> TextScanner::TakeChar() {
  if (at_end()) return Error("the text ends too early");
  const size_t begin = offset_;
  if (Peek() != '\\') {
    const DecodedChar next = DecodeChar(text_.data() + offset_);
    offset_ += next.num_bytes;
    return next.code_point;
  }
  const char kind = Peek(1);
  offset_ += 2;
  static constexpr std::string_view kLetters = "nrtbfvae0", kMeanings("\n\r\t\b\f\v\a\x1b\0", 9);
  if (const size_t at = kLetters.find(kind); at != kLetters.npos && kind != '\0')
    return static_cast<char32_t>(kMeanings[at]);
  if (kind == 'x') return TakeHex(2);
  if (kind != 'u' && kind != 'U') {
    if (absl::ascii_ispunct(static_cast<unsigned char>(kind))) return static_cast<char32_t>(kind);
    const size_t size =
        begin + 1 < text_.size() ? DecodeChar(text_.data() + begin + 1).num_bytes : 0;
    return ErrorAt(begin, Concat("a bad escape: ", text_.substr(begin, 1 + size)));
  }
  char32_t code = 0;
  ASSIGN_OR_RETURN(code, TakeHex(kind == 'u' ? 4 : 8));
  if (code >= 0xD800 && code < 0xDC00 && kind == 'u' && Take("\\u")) {
    char32_t low = 0;
    ASSIGN_OR_RETURN(low, TakeHex(4));
    code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : low;
  }
  if (code >= kNumCodePoints || (code >= 0xD800 && code < 0xE000))
    return ErrorAt(begin, "a bad escape: not a Unicode character");
  return code;
}

absl::Status TextScanner::Unexpected() const {
  if (at_end()) return Error("the text ends too early");
  const DecodedChar next = DecodeChar(text_.data() + offset_);
  return Error(Concat("unexpected ", text_.substr(offset_, next.num_bytes)));
}

}  // namespace quire
