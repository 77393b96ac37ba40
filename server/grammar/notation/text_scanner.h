// A grammar's text from the front: characters, spaces and comments, names, numbers, escapes, and
// errors with their line and column. For one reader; one thread.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quire {

// INVALID_ARGUMENT: "line L, column C: message".
absl::Status GrammarTextError(std::string_view text, size_t offset, std::string_view message);

class TextScanner {
 public:
  // Valid UTF-8, which outlives this. `slashes_comment`: two slashes begin a comment, as # does.
  TextScanner(std::string_view text, bool slashes_comment)
      : text_(text), slashes_comment_(slashes_comment) {}

  std::string_view text() const { return text_; }
  size_t offset() const { return offset_; }
  void GoTo(size_t offset) { offset_ = offset; }
  bool at_end() const { return offset_ >= text_.size(); }
  std::string_view rest() const { return text_.substr(offset_); }
  // A byte; zero beyond the end.
  char Peek(size_t ahead = 0) const {
    return offset_ + ahead < text_.size() ? text_[offset_ + ahead] : '\0';
  }
  bool IsNext(std::string_view word) const { return rest().substr(0, word.size()) == word; }
  bool Take(std::string_view word) {
    if (!IsNext(word)) return false;
    offset_ += word.size();
    return true;
  }

  // For messages: the text up to the character, if it comes in the line, and not more than 40
  // bytes.
  std::string_view Until(char last) const;

  // Skips spaces and comments.
  void SkipSpace();
  // Only spaces come before this in its line.
  bool IsFirstInLine() const;
  // Skips spaces and tabs.
  void SkipBlanks();
  // Letters, digits, - and _; empty if none is next.
  std::string_view TakeName();
  // Decimal digits; an error if there are none, or if the number is above kMaxGrammarTextRepeats.
  absl::StatusOr<uint32_t> TakeCount();
  // One character, which may be an escape: of C, \xHH, \uHHHH (surrogates in pairs), \UHHHHHHHH, or
  // of punctuation.
  absl::StatusOr<char32_t> TakeChar();

  absl::Status Error(std::string_view message) const { return ErrorAt(offset_, message); }
  absl::Status ErrorAt(size_t offset, std::string_view message) const {
    return GrammarTextError(text_, offset, message);
  }
  // That the next character has no place here.
  absl::Status Unexpected() const;

 private:
  absl::StatusOr<char32_t> TakeHex(size_t num_digits);

  const std::string_view text_;
  const bool slashes_comment_;
  size_t offset_ = 0;
};

}  // namespace quire
