// Decimal: a number exactly as JSON writes it, for the bounds and multiples of schemas.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace quire {

// The value is (-1)^is_negative times whole.fraction. `whole` has no leading zeros ("0" apart) and
// `fraction` no trailing ones; zero is not negative.
struct Decimal {
  bool is_negative = false;
  std::string whole = "0";
  std::string fraction = {};

  bool is_zero() const { return whole == "0" && fraction.empty(); }
  bool is_integer() const { return fraction.empty(); }

  friend bool operator==(const Decimal&, const Decimal&) = default;
};

// Digits that a decimal may have in all.
inline constexpr size_t kMaxDecimalDigits = 400;

// The value of a JSON number, with an exponent or without. None if it has more digits than
// kMaxDecimalDigits.
std::optional<Decimal> ParseDecimal(absl::string_view text);

// Negative, 0 or positive, as a is less than, equal to or greater than b.
int Compare(const Decimal& a, const Decimal& b);

std::string ToText(const Decimal& decimal);

}  // namespace quire
