#include "server/grammar/schema/decimal.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace quire {

std::optional<Decimal> ParseDecimal(absl::string_view text) {
  Decimal result;
  if (text.substr(0, 1) == "-") {
    result.is_negative = true;
    text.remove_prefix(1);
  }
  int64_t exponent = 0;
  if (const size_t at = text.find_first_of("eE"); at != text.npos) {
    absl::string_view digits = text.substr(at + 1);
    if (digits.substr(0, 1) == "+") digits.remove_prefix(1);
    if (!absl::SimpleAtoi(digits, &exponent)) return std::nullopt;
    text = text.substr(0, at);
  }
  const size_t point = text.find('.');
  std::string digits(text.substr(0, point));
  int64_t num_whole = static_cast<int64_t>(digits.size());
  if (point != text.npos) digits += std::string(text.substr(point + 1));
  const size_t first = digits.find_first_not_of('0');
  if (first == digits.npos) return Decimal();
  const size_t last = digits.find_last_not_of('0');
  num_whole += exponent - static_cast<int64_t>(first);
  digits = digits.substr(first, last - first + 1);
  // The point stands behind the first num_whole digits.
  const int64_t size = static_cast<int64_t>(digits.size());
  const int64_t most = static_cast<int64_t>(kMaxDecimalDigits);
  if (size > most || num_whole > most || num_whole < size - most) return std::nullopt;
  if (num_whole <= 0) {
    result.fraction = std::string(static_cast<size_t>(-num_whole), '0') + digits;
  } else if (num_whole >= size) {
    result.whole = digits + std::string(static_cast<size_t>(num_whole - size), '0');
  } else {
    result.whole = digits.substr(0, static_cast<size_t>(num_whole));
    result.fraction = digits.substr(static_cast<size_t>(num_whole));
  }
  return result;
}

int Compare(const Decimal& a, const Decimal& b) {
  if (a.is_negative != b.is_negative) return a.is_negative ? -1 : 1;
  int order = 0;
  if (a.whole.size() != b.whole.size()) {
    order = a.whole.size() < b.whole.size() ? -1 : 1;
  } else if (const int digits = a.whole.compare(b.whole); digits != 0) {
    order = digits;
  } else {
    order = a.fraction.compare(b.fraction);  // a shorter one ends in zeros
  }
  return a.is_negative ? -order : order;
}

std::string ToText(const Decimal& decimal) {
  return absl::StrCat(decimal.is_negative ? "-" : "", decimal.whole,
                      decimal.fraction.empty() ? "" : ".", decimal.fraction);
}

}  // namespace quire
