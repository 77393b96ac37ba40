#include "server/grammar/regex/regex_reader.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "server/grammar/regex/char_class.h"
#include "server/text/concat.h"
#include "server/text/utf8.h"

namespace quire {

namespace {

bool TakePrefix(std::string_view* text, std::string_view prefix) {
  if (text->substr(0, prefix.size()) != prefix) return false;
  text->remove_prefix(prefix.size());
  return true;
}

bool IsHighSurrogate(char32_t c) { return c >= 0xD800 && c <= 0xDBFF; }
bool IsLowSurrogate(char32_t c) { return c >= 0xDC00 && c <= 0xDFFF; }

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

CharSet Cased(const CharSet& chars, bool ignore_case) {
  return ignore_case ? chars.WithAllCases() : chars;
}

}  // namespace

void RegexReader::End(absl::Status status) {
  if (status_.ok()) status_ = std::move(status);
  offset_ = pattern_.size();
}

void RegexReader::Fail(size_t offset, std::string_view what) {
  End(absl::InvalidArgumentError(Concat("at byte ", offset, " of the pattern: ", what)));
}

void RegexReader::Refuse(size_t offset, std::string_view what) {
  End(absl::UnimplementedError(
      Concat("at byte ", offset, " of the pattern: ", what, " is not supported")));
}

bool RegexReader::Take(std::string_view text) {
  if (pattern_.substr(offset_, text.size()) != text) return false;
  offset_ += text.size();
  return true;
}

char32_t RegexReader::TakeChar() {
  const DecodedChar next = DecodeChar(pattern_.data() + offset_);
  offset_ += next.num_bytes;
  return next.code_point;
}

std::optional<std::string_view> RegexReader::TakeUntil(char end) {
  const size_t at = pattern_.find(end, offset_);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view taken = pattern_.substr(offset_, at - offset_);
  offset_ = at + 1;
  return taken;
}

std::optional<uint32_t> RegexReader::TakeNumber() {
  if (!absl::ascii_isdigit(static_cast<unsigned char>(Peek()))) return std::nullopt;
  uint64_t number = 0;
  for (; absl::ascii_isdigit(static_cast<unsigned char>(Peek())); ++offset_)
    number = std::min<uint64_t>(number * 10 + static_cast<uint64_t>(Peek() - '0'), UINT32_MAX);
  return static_cast<uint32_t>(number);
}

char32_t RegexReader::ReadHex(size_t min_digits, size_t max_digits, size_t begin) {
  char32_t value = 0;
  size_t num_digits = 0;
  for (; num_digits < max_digits && HexDigit(Peek()) >= 0; ++num_digits, ++offset_)
    value = value * 16 + static_cast<char32_t>(HexDigit(Peek()));
  if (num_digits < min_digits) Fail(begin, "an escape lacks hexadecimal digits");
  if (value >= kNumCodePoints) Fail(begin, "an escape is beyond U+10FFFF");
  return value;
}

// Behind \u: four digits, two times four that are a pair of surrogates, or digits in braces.
char32_t RegexReader::ReadUnicode(size_t begin) {
  if (Take("{")) {
    const char32_t value = ReadHex(1, 6, begin);
    if (!Take("}")) Fail(begin, "\\u{ lacks its }");
    return value;
  }
  const char32_t high = ReadHex(4, 4, begin);
  if (!IsHighSurrogate(high) || Peek() != '\\' || Peek(1) != 'u') return high;
  const size_t before = offset_;
  offset_ += 2;
  const char32_t low = HexDigit(Peek()) >= 0 ? ReadHex(4, 4, before) : 0;
  if (IsLowSurrogate(low)) return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
  if (status_.ok()) offset_ = before;
  return high;
}

// Behind \0: up to two more digits.
char32_t RegexReader::ReadOctal() {
  char32_t value = 0;
  for (int i = 0; i < 2 && Peek() >= '0' && Peek() <= '7'; ++i, ++offset_)
    value = value * 8 + static_cast<char32_t>(Peek() - '0');
  return value;
}

char32_t RegexReader::ReadCharEscape(size_t begin) {
  const char32_t c = TakeChar();
  switch (c) {
    case 't':
      return '\t';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case 'a':
      return '\a';
    case 'e':
      return 0x1B;
    case '0':
      return ReadOctal();
    case 'x': {
      if (!Take("{")) return ReadHex(2, 2, begin);
      const char32_t value = ReadHex(1, 6, begin);
      if (!Take("}")) Fail(begin, "\\x{ lacks its }");
      return value;
    }
    case 'u':
      return ReadUnicode(begin);
    case 'U':
      return ReadHex(8, 8, begin);
    case 'c':
      if (absl::ascii_isalpha(static_cast<unsigned char>(Peek()))) return TakeChar() & 31;
      Fail(begin, "\\c lacks its letter");
      return 0;
    default:
      break;
  }
  if (c < 0x80 && absl::ascii_isdigit(static_cast<unsigned char>(c))) {
    Refuse(begin, "a backreference");
  } else if (c < 0x80 && absl::ascii_isalpha(static_cast<unsigned char>(c))) {
    constexpr std::string_view kOfOthers = "kgGhHRKXNQECBbAzZ";
    const std::string escape = {'\\', static_cast<char>(c)};
    if (kOfOthers.find(static_cast<char>(c)) != std::string_view::npos) {
      Refuse(begin, Concat("the escape ", escape, " here"));
    } else {
      Fail(begin, Concat("the escape ", escape, " is unknown"));
    }
  }
  return c;
}

CharSet RegexReader::ReadProperty(bool negated, bool ignore_case, size_t begin) {
  if (at_end()) {
    Fail(begin, "\\p lacks its name");
    return {};
  }
  std::string_view name = pattern_.substr(offset_, 1);
  if (!Take("{")) {
    Skip(1);
  } else if (const auto braced = TakeUntil('}')) {
    name = *braced;
    if (TakePrefix(&name, "^")) negated = !negated;
  } else {
    Fail(begin, "\\p{ lacks its }");
    return {};
  }
  const auto [known, is_new] =
      properties_.try_emplace(Concat(ignore_case ? "i" : "", negated ? "^" : "", name));
  if (!is_new) return known->second;
  const std::optional<CharSet> chars = PropertyChars(name);
  if (!chars.has_value()) {
    Refuse(begin, Concat("the property \\p{", name, "}, which is no general category,"));
    return {};
  }
  num_ranges_ += chars->ranges().size();
  const CharSet cased = Cased(*chars, ignore_case);
  known->second = negated ? cased.Complement() : cased;
  return known->second;
}

// Nothing for an escape of one character.
std::optional<CharSet> RegexReader::ReadClassEscape(bool ignore_case) {
  const size_t begin = offset_ - 1;
  const char c = Peek();
  switch (c) {
    case 'd':
    case 'D':
    case 'w':
    case 'W':
    case 's':
    case 'S': {
      Skip(1);
      const char lower = absl::ascii_tolower(static_cast<unsigned char>(c));
      const CharSet chars = Cased(lower == 'd'   ? DigitChars()
                                  : lower == 'w' ? WordChars()
                                                 : SpaceChars(),
                                  ignore_case);
      return c == lower ? chars : chars.Complement();
    }
    case 'p':
    case 'P':
      Skip(1);
      return ReadProperty(c == 'P', ignore_case, begin);
    default:
      return std::nullopt;
  }
}

CharSet RegexReader::ReadEscape(bool ignore_case) {
  const size_t begin = offset_ - 1;
  if (at_end()) {
    Fail(begin, "nothing is behind the last backslash");
    return {};
  }
  if (const auto chars = ReadClassEscape(ignore_case)) return *chars;
  return Cased(CharSet::Of(ReadCharEscape(begin)), ignore_case);
}

RegexReader::ClassItem RegexReader::ReadClassItem(bool ignore_case) {
  const size_t begin = offset_;
  if (Peek() == '[' && Peek(1) == ':') {
    const size_t end = pattern_.find(":]", begin + 2);
    std::string_view name =
        end == std::string_view::npos ? "" : pattern_.substr(begin + 2, end - begin - 2);
    const bool negated = TakePrefix(&name, "^");
    if (const auto chars = PosixChars(name)) {
      offset_ = end + 2;
      const CharSet cased = Cased(*chars, ignore_case);
      return {.is_class = true, .chars = negated ? cased.Complement() : cased};
    }
  }
  if (!Take("\\")) return {.c = TakeChar()};
  if (at_end()) {
    Fail(begin, "nothing is behind the last backslash");
    return {};
  }
  if (auto chars = ReadClassEscape(ignore_case)) return {.is_class = true, .chars = *chars};
  if (Take("b")) return {.c = '\b'};
  return {.c = ReadCharEscape(begin)};
}

CharSet RegexReader::ReadClass(bool ignore_case) {
  const size_t begin = offset_ - 1;
  const bool negated = Take("^");
  std::vector<CharSet::Range> ranges;
  const auto add = [&](const ClassItem& item) {
    if (!item.is_class) ranges.push_back({item.c, item.c});
    ranges.insert(ranges.end(), item.chars.ranges().begin(), item.chars.ranges().end());
  };
  while (status_.ok() && !Take("]")) {
    if (at_end()) {
      Fail(begin, "the class lacks its ]");
      break;
    }
    const size_t item_begin = offset_;
    const ClassItem first = ReadClassItem(ignore_case);
    if (Peek() != '-' || Peek(1) == ']' || offset_ + 1 == pattern_.size() || first.is_class) {
      add(first);
      continue;
    }
    Skip(1);
    const ClassItem last = ReadClassItem(ignore_case);
    if (last.is_class) {
      // As in [a-\d], where the hyphen is one.
      add(first);
      add({.c = '-'});
      add(last);
    } else if (first.c > last.c) {
      Fail(item_begin, "the range of a class ends before it begins");
    } else {
      ranges.push_back({first.c, last.c});
    }
  }
  num_ranges_ += ranges.size();
  const CharSet chars = Cased(CharSet(std::move(ranges)), ignore_case);
  return negated ? chars.Complement() : chars;
}

}  // namespace quire
