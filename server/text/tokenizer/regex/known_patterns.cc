#include "server/text/tokenizer/regex/known_patterns.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "kernels/base/status_macros.h"
#include "server/text/unicode.h"
#include "server/text/utf8.h"

namespace quire {
namespace {

constexpr std::string_view kGpt2Text =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kLlama3Text =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+)"
    R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Text =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+)"
    R"([\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr char32_t kLongS = 0x17F;  // folds to 's'

bool IsNewline(char c) { return c == '\r' || c == '\n'; }

// Walks one text from match to match. Positions are pointers; every match is at least one character
// long.
class Walker {
 public:
  explicit Walker(std::string_view text) : end_(text.data() + text.size()), table_(CharClasses()) {}

  const char* Gpt2Match(const char* at) {
    const char* contraction = Contraction(at, /*ignore_case=*/false);
    if (contraction != at) return contraction;
    // Runs of letters, numbers or other characters may take one blank along.
    const char* body = *at == ' ' && at + 1 < end_ ? at + 1 : at;
    const uint8_t classes = ClassesAt(body);
    if (classes & kLetter) return SkipClass(body, kLetter);
    if (classes & kNumber) return SkipClass(body, kNumber);
    if (!(classes & kSpace)) return SkipOthers(body);
    return Spaces(at, SkipClass(at, kSpace));
  }

  const char* Cl100kMatch(const char* at, int max_digits) {
    const char* contraction = Contraction(at, /*ignore_case=*/true);
    if (contraction != at) return contraction;
    const DecodedChar first = DecodeChar(at);
    const uint8_t classes = table_[first.code_point];
    if (classes & kLetter) return SkipClass(at, kLetter);
    if (classes & kNumber) return SkipDigits(at, max_digits);
    // Anything but a line break may lead a run of letters.
    const char* next = at + first.num_bytes;
    if (!IsNewline(*at) && next < end_ && ClassesAt(next) & kLetter)
      return SkipClass(next, kLetter);
    const char* body = *at == ' ' && next < end_ ? next : at;
    if (!(ClassesAt(body) & (kSpace | kLetter | kNumber))) return SkipNewlines(SkipOthers(body));
    const char* spaces_end = SkipClass(at, kSpace);
    const char* last_newline = spaces_end;
    while (last_newline > at && !IsNewline(last_newline[-1])) --last_newline;
    num_seen_ += spaces_end - last_newline;
    return last_newline > at ? last_newline : Spaces(at, spaces_end);
  }

  // Bytes of runs walked over so far; the few characters that every match looks at do not count.
  size_t num_seen() const { return static_cast<size_t>(num_seen_); }

 private:
  uint8_t ClassesAt(const char* at) const { return table_[DecodeChar(at).code_point]; }

  const char* SkipClass(const char* begin, uint8_t wanted) {
    const char* at = begin;
    while (at < end_) {
      const DecodedChar c = DecodeChar(at);
      if (!(table_[c.code_point] & wanted)) break;
      at += c.num_bytes;
    }
    return Seen(begin, at);
  }

  const char* SkipOthers(const char* begin) {
    const char* at = begin;
    while (at < end_) {
      const DecodedChar c = DecodeChar(at);
      if (table_[c.code_point] & (kSpace | kLetter | kNumber)) break;
      at += c.num_bytes;
    }
    return Seen(begin, at);
  }

  const char* SkipDigits(const char* at, int max_digits) const {
    for (int i = 0; i < max_digits && at < end_; ++i) {
      const DecodedChar c = DecodeChar(at);
      if (!(table_[c.code_point] & kNumber)) break;
      at += c.num_bytes;
    }
    return at;
  }

  const char* SkipNewlines(const char* begin) {
    const char* at = begin;
    while (at < end_ && IsNewline(*at)) ++at;
    return Seen(begin, at);
  }

  const char* Seen(const char* begin, const char* end) {
    num_seen_ += end - begin;
    return end;
  }

  // \s+(?!\S)|\s+ on the run [at, spaces_end): the last blank is left for the word that follows.
  const char* Spaces(const char* at, const char* spaces_end) const {
    if (spaces_end == end_) return spaces_end;
    const char* last = spaces_end - DecodeCharBefore(spaces_end).num_bytes;
    return last > at ? last : spaces_end;
  }

  // The end of one of 's 't 're 've 'm 'll 'd at `at`, or `at`.
  const char* Contraction(const char* at, bool ignore_case) const {
    if (*at != '\'' || end_ - at < 2) return at;
    const auto letter = [&](const char* p) {
      if (p >= end_) return '\0';
      return ignore_case && *p >= 'A' && *p <= 'Z' ? static_cast<char>(*p + ('a' - 'A')) : *p;
    };
    const char first = letter(at + 1);
    const char second = letter(at + 2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return at + 2;
    if ((first == 'r' || first == 'v') && second == 'e') return at + 3;
    if (first == 'l' && second == 'l') return at + 3;
    if (ignore_case && first < 0) {
      const DecodedChar c = DecodeChar(at + 1);
      if (c.code_point == kLongS) return at + 1 + c.num_bytes;
    }
    return at;
  }

  const char* const end_;
  const uint8_t* const table_;
  ptrdiff_t num_seen_ = 0;
};

}  // namespace

std::string_view PatternText(KnownPattern pattern) {
  switch (pattern) {
    case KnownPattern::kGpt2:
      return kGpt2Text;
    case KnownPattern::kLlama3:
      return kLlama3Text;
    case KnownPattern::kQwen2:
      return kQwen2Text;
  }
  return {};
}

std::optional<KnownPattern> RecognizePattern(std::string_view text) {
  for (KnownPattern pattern : {KnownPattern::kGpt2, KnownPattern::kLlama3, KnownPattern::kQwen2}) {
    if (text == PatternText(pattern)) return pattern;
  }
  return std::nullopt;
}

absl::Status FindKnownPattern(KnownPattern pattern, std::string_view text, SpanSink sink,
                              size_t* num_seen) {
  Walker walker(text);
  const int max_digits = pattern == KnownPattern::kLlama3 ? 3 : 1;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    const char* match_end =
        pattern == KnownPattern::kGpt2 ? walker.Gpt2Match(at) : walker.Cl100kMatch(at, max_digits);
    RETURN_IF_ERROR(sink({static_cast<size_t>(at - text.data()),
                          static_cast<size_t>(match_end - text.data()), true}));
    at = match_end;
  }
  if (num_seen != nullptr) *num_seen += walker.num_seen();
  return absl::OkStatus();
}

}  // namespace quire
