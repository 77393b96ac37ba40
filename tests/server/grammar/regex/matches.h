// Whether an expression has a text: its derivatives by the bytes, one after another.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "server/grammar/expr/derivative.h"
#include "server/grammar/expr/expr_store.h"

namespace quire {

inline bool Matches(ExprStore* store, ExprId expr, std::string_view text) {
  for (const char c : text) expr = Derivative(store, expr, static_cast<uint8_t>(c));
  return store->is_nullable(expr);
}

// A text as it is written between the quotes of a JSON string.
inline std::string JsonSpelling(std::string_view text, bool upper_case = false) {
  constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
  const std::string_view digits = upper_case ? "0123456789ABCDEF" : "0123456789abcdef";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (const size_t at = kEscaped.find(c); at != std::string_view::npos) {
      result += {'\\', kLetters[at]};
    } else if (byte < 0x20) {
      result += "\\u00";
      result += {digits[byte >> 4], digits[byte & 15]};
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace quire
