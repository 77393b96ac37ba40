#include "server/text/chat/jinja/syntax/lexer.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "kernels/base/status_macros.h"
#include "server/text/chat/jinja/syntax/string_literal.h"
#include "server/text/chat/jinja/values/error.h"
#include "server/text/python_text.h"
#include "server/text/utf8.h"

namespace quire::jinja {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsNameStart(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsNameCharacter(char c) { return IsNameStart(c) || IsDigit(c); }

// \r\n and \r become \n; one line break at the end goes.
std::string NormalizeLineBreaks(std::string_view source) {
  std::string result;
  result.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      result.push_back(source[i]);
    } else if (source.substr(i + 1, 1) != "\n") {
      result.push_back('\n');
    }
  }
  if (!result.empty() && result.back() == '\n') result.pop_back();
  return result;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (at_ < source_.size()) RETURN_IF_ERROR(LexRoot());
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  std::string_view Rest() const { return std::string_view(source_).substr(at_); }
  bool StartsWith(std::string_view prefix) const { return Rest().starts_with(prefix); }
  template <typename... Pieces>
  absl::Status ErrorHere(const Pieces&... pieces) const {
    return SyntaxError(line_, pieces...);
  }

  void Add(TokenKind kind, std::string text) {
    tokens_.push_back({kind, line_, std::move(text), 0, 0});
  }

  void Advance(size_t size) {
    const auto begin = source_.begin() + static_cast<ptrdiff_t>(at_);
    line_ += static_cast<int>(std::count(begin, begin + static_cast<ptrdiff_t>(size), '\n'));
    at_ += size;
  }

  void SkipSpace() {
    while (at_ < source_.size()) {
      const Character character = CharacterAt(source_, at_);
      if (!IsSpace(character.code)) return;
      Advance(character.size);
    }
  }

  // The literal text up to the next tag, and the tag.
  absl::Status LexRoot() {
    size_t tag = at_;
    for (;; ++tag) {
      tag = source_.find('{', tag);
      if (tag == std::string::npos) {
        AddData(at_, source_.size());
        return absl::OkStatus();
      }
      const char next = tag + 1 < source_.size() ? source_[tag + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') break;
    }
    const char type = source_[tag + 1];
    const char sign = SignAt(tag + 2);
    AddData(at_, StrippedEnd(at_, tag, sign, type != '{'));
    MoveTo(tag);
    Advance(sign == '\0' ? 2 : 3);
    if (type == '#') return LexComment();
    if (type == '{') {
      Add(TokenKind::kVariableBegin, "");
      return LexTag(TokenKind::kVariableEnd, "}}");
    }
    if (SkipRawBegin()) return LexRaw();
    Add(TokenKind::kBlockBegin, "");
    return LexTag(TokenKind::kBlockEnd, "%}");
  }

  char SignAt(size_t at) const {
    return at < source_.size() && (source_[at] == '-' || source_[at] == '+') ? source_[at] : '\0';
  }

  void MoveTo(size_t offset) { Advance(offset - at_); }

  void AddData(size_t begin, size_t end) {
    if (end > begin) Add(TokenKind::kData, source_.substr(begin, end - begin));
    MoveTo(std::max(end, at_));
  }

  // Where the literal text [begin, tag) ends once the white space before the tag is taken off.
  size_t StrippedEnd(size_t begin, size_t tag, char sign, bool strips_indentation) const {
    const std::string_view text = std::string_view(source_).substr(begin, tag - begin);
    size_t end = text.size();
    while (end > 0) {
      const size_t last = PreviousCharacter(text, end);
      if (!IsSpace(CharacterAt(text, last).code)) break;
      end = last;
    }
    if (sign == '-') return begin + end;
    if (sign == '+' || !strips_indentation) return tag;
    const size_t newline = text.rfind('\n');
    const size_t line_begin = newline == text.npos ? 0 : newline + 1;
    // Only an indentation that starts its line goes.
    const bool at_line_start = line_begin > 0 || line_starting_;
    return at_line_start && end <= line_begin ? begin + line_begin : tag;
  }

  // Skips what goes with the end of a tag: all white space after '-', one line break where blocks
  // are trimmed.
  void FinishTag(size_t size, char sign, bool trims_line_break) {
    const size_t begin = at_;
    Advance(size);
    if (sign == '-') {
      SkipSpace();
    } else if (sign != '+' && trims_line_break && StartsWith("\n")) {
      Advance(1);
    }
    line_starting_ = at_ > begin && source_[at_ - 1] == '\n';
  }

  // Moves past the end of a tag if it stands here.
  bool SkipTagEnd(std::string_view end, bool is_variable) {
    const char sign = SignAt(at_);
    const bool has_sign = sign == '-' || (sign == '+' && !is_variable);
    if (!Rest().substr(has_sign ? 1 : 0).starts_with(end)) return false;
    FinishTag(end.size() + (has_sign ? 1 : 0), has_sign ? sign : '\0', !is_variable);
    return true;
  }

  absl::Status LexComment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string::npos) return ErrorHere("a comment has no end: expected '#}'");
    const char sign = end > at_ ? SignAt(end - 1) : '\0';
    MoveTo(sign == '\0' ? end : end - 1);
    SkipTagEnd("#}", false);
    return absl::OkStatus();
  }

  // "raw %}" after a block's begin. Unlike other blocks it keeps the line break that follows.
  bool SkipRawBegin() {
    const size_t begin = at_;
    const int line = line_;
    SkipSpace();
    if (StartsWith("raw")) {
      Advance(3);
      SkipSpace();
      const bool strips = StartsWith("-%}");
      if (strips || StartsWith("%}")) {
        FinishTag(strips ? 3 : 2, strips ? '-' : '\0', false);
        return true;
      }
    }
    at_ = begin;
    line_ = line;
    return false;
  }

  absl::Status LexRaw() {
    const size_t data = at_;
    const int line = line_;
    for (size_t tag = source_.find("{%", at_); tag != std::string::npos;
         tag = source_.find("{%", tag + 2)) {
      MoveTo(tag);
      const char sign = SignAt(tag + 2);
      Advance(sign == '\0' ? 2 : 3);
      SkipSpace();
      if (!StartsWith("endraw")) continue;
      Advance(6);
      SkipSpace();
      const size_t end = StrippedEnd(data, tag, sign, true);
      if (!SkipTagEnd("%}", false)) continue;
      if (end > data)
        tokens_.push_back({TokenKind::kData, line, source_.substr(data, end - data), 0, 0});
      return absl::OkStatus();
    }
    return ErrorHere("a raw block has no end: expected '{% endraw %}'");
  }

  absl::Status LexTag(TokenKind end_kind, std::string_view end) {
    std::string brackets;  // The closing ones that are due.
    while (true) {
      SkipSpace();
      if (at_ == source_.size()) return ErrorHere("a tag has no end: expected '", end, "'");
      const int line = line_;
      if (brackets.empty() && SkipTagEnd(end, end_kind == TokenKind::kVariableEnd)) {
        tokens_.push_back({end_kind, line, "", 0, 0});
        return absl::OkStatus();
      }
      const char c = source_[at_];
      if (IsDigit(c)) {
        RETURN_IF_ERROR(LexNumber());
      } else if (IsNameStart(c)) {
        LexName();
      } else if (c == '\'' || c == '"') {
        RETURN_IF_ERROR(LexString(c));
      } else {
        RETURN_IF_ERROR(LexOperator(&brackets));
      }
    }
  }

  void LexName() {
    size_t end = at_;
    while (end < source_.size() && IsNameCharacter(source_[end])) ++end;
    Add(TokenKind::kName, source_.substr(at_, end - at_));
    MoveTo(end);
  }

  absl::Status LexString(char quote) {
    size_t end = at_ + 1;
    while (end < source_.size() && source_[end] != quote) end += source_[end] == '\\' ? 2 : 1;
    if (end >= source_.size()) return ErrorHere("a string has no end");
    absl::StatusOr<std::string> text =
        UnescapeString(std::string_view(source_).substr(at_ + 1, end - at_ - 1));
    if (!text.ok()) return ErrorHere(text.status().message());
    Add(TokenKind::kString, *std::move(text));
    MoveTo(end + 1);
    return absl::OkStatus();
  }

  // End of the digits, with single underscores between, that start at `at`.
  size_t DigitsEnd(size_t at) const {
    while (at < source_.size() && IsDigit(source_[at])) {
      ++at;
      if (at + 1 < source_.size() && source_[at] == '_' && IsDigit(source_[at + 1])) ++at;
    }
    return at;
  }

  bool IsDigitAt(size_t at) const { return at < source_.size() && IsDigit(source_[at]); }

  // End of a float that starts here, or `at_` if the number is an integer.
  size_t FloatEnd() const {
    if (at_ > 0 && source_[at_ - 1] == '.') return at_;
    size_t end = DigitsEnd(at_);
    bool is_float = false;
    if (end < source_.size() && source_[end] == '.' && IsDigitAt(end + 1)) {
      end = DigitsEnd(end + 1);
      is_float = true;
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      const size_t digits = end + (SignAt(end + 1) != '\0' ? 2 : 1);
      if (IsDigitAt(digits)) return DigitsEnd(digits);
    }
    return is_float ? end : at_;
  }

  absl::Status LexNumber() {
    const size_t float_end = FloatEnd();
    const size_t end = float_end > at_ ? float_end : DigitsEnd(at_);
    std::string digits = source_.substr(at_, end - at_);
    digits.erase(std::remove(digits.begin(), digits.end(), '_'), digits.end());
    Token token{TokenKind::kFloat, line_, digits, 0, 0};
    if (float_end > at_) {
      if (!absl::SimpleAtod(digits, &token.number)) return ErrorHere("a number cannot be read");
    } else {
      int64_t value = 0;
      if (digits.size() > 1 && digits[0] == '0' && digits.find_first_not_of('0') != digits.npos) {
        return ErrorHere("the number ", digits, " starts with 0");
      }
      if (!absl::SimpleAtoi(digits, &value))
        return ErrorHere("the number ", digits, " is too large");
      token.kind = TokenKind::kInteger;
      token.integer = value;
    }
    tokens_.push_back(std::move(token));
    MoveTo(end);
    return absl::OkStatus();
  }

  absl::Status LexOperator(std::string* brackets) {
    static constexpr std::string_view kOperators[] = {
        "**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[",
        "]",  "(",  ")",  "{",  "}",  ">",  "<", "=", ".", ":", "|", ",", ";"};
    const auto found = std::find_if(std::begin(kOperators), std::end(kOperators),
                                    [this](std::string_view symbol) { return StartsWith(symbol); });
    if (found == std::end(kOperators)) {
      return ErrorHere("unexpected character '", Rest().substr(0, CharacterAt(source_, at_).size),
                       "'");
    }
    const std::string_view symbol = *found;
    if (symbol == "(") brackets->push_back(')');
    if (symbol == "[") brackets->push_back(']');
    if (symbol == "{") brackets->push_back('}');
    if (symbol == ")" || symbol == "]" || symbol == "}") {
      if (brackets->empty() || brackets->back() != symbol[0]) {
        return ErrorHere("unexpected '", symbol, "'");
      }
      brackets->pop_back();
    }
    Add(TokenKind::kOperator, std::string(symbol));
    Advance(symbol.size());
    return absl::OkStatus();
  }

  const std::string source_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // Nothing but a line break stands before `at_` since the last tag.
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source) {
  return Lexer(NormalizeLineBreaks(source)).Run();
}

}  // namespace quire::jinja
