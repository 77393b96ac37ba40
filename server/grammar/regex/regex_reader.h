// Reads the parts of a pattern that are characters: escapes, classes, numbers and names. The first
// error is kept, and ends the reading. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/grammar/regex/char_set.h"

namespace quire {

class RegexReader {
 public:
  // Valid UTF-8 that outlives this.
  explicit RegexReader(std::string_view pattern) : pattern_(pattern) {}

  bool at_end() const { return offset_ == pattern_.size(); }
  size_t offset() const { return offset_; }
  // The next byte, or the one `ahead` bytes further on; 0 at the end.
  char Peek(size_t ahead = 0) const {
    return offset_ + ahead < pattern_.size() ? pattern_[offset_ + ahead] : '\0';
  }
  // Takes the text if it comes next.
  bool Take(std::string_view text);
  void Skip(size_t num_bytes) { offset_ += num_bytes; }
  void GoBack(size_t offset) { offset_ = offset; }
  char32_t TakeChar();
  // Up to the next `end`, which is taken, too; nothing, and nothing is taken, if there is none.
  std::optional<std::string_view> TakeUntil(char end);
  // Decimal digits; UINT32_MAX for a number that is too large, nothing without digits.
  std::optional<uint32_t> TakeNumber();

  // An escape that is a character or a class, behind its backslash.
  CharSet ReadEscape(bool ignore_case);
  // A class, behind its '['.
  CharSet ReadClass(bool ignore_case);

  // INVALID_ARGUMENT with the offset, and UNIMPLEMENTED likewise. Nothing is left to read.
  void Fail(size_t offset, std::string_view what);
  void Refuse(size_t offset, std::string_view what);
  const absl::Status& status() const { return status_; }
  // Ranges of characters that classes were made of, one after another: the work that they cost.
  size_t num_ranges() const { return num_ranges_; }

 private:
  // Of a class: a character, which may begin or end a range, or a class such as \d.
  struct ClassItem {
    bool is_class = false;
    char32_t c = 0;
    CharSet chars = {};  // of a class
  };

  void End(absl::Status status);
  std::optional<CharSet> ReadClassEscape(bool ignore_case);
  CharSet ReadProperty(bool negated, bool ignore_case, size_t begin);
  char32_t ReadCharEscape(size_t begin);
  char32_t ReadOctal();
  char32_t ReadHex(size_t min_digits, size_t max_digits, size_t begin);
  char32_t ReadUnicode(size_t begin);
  ClassItem ReadClassItem(bool ignore_case);

  const std::string_view pattern_;
  size_t offset_ = 0;
  absl::Status status_;
  size_t num_ranges_ = 0;
  std::map<std::string, CharSet> properties_;  // of \p, by flag, negation and name
};

}  // namespace quire
