// Expressions of JSON numbers: within bounds, whole, or multiples.
#pragma once

#include <optional>
#include <vector>

#include "server/grammar/expr/expr_store.h"
#include "server/grammar/schema/decimal.h"

namespace quire {

struct NumberBound {
  Decimal value;
  bool is_exclusive = false;

  friend bool operator==(const NumberBound&, const NumberBound&) = default;
};

// Numbers that fulfil all of these. By value: 1 and 1.0 are the same number.
struct NumberCell {
  enum class Kind : uint8_t { kAny, kWhole, kWithFraction };

  Kind kind = Kind::kAny;
  std::optional<NumberBound> min = {}, max = {};
  std::vector<Decimal> multiple_of = {};      // each positive
  std::vector<Decimal> not_multiple_of = {};  // likewise

  friend bool operator==(const NumberCell&, const NumberCell&) = default;
};

// Whether no number can be in the cell, as far as bounds tell.
bool IsEmpty(const NumberCell& cell);

// The texts of the cell's numbers. Numbers without bounds may have exponents; other numbers are
// written without. Cells of whole numbers have no fraction in their texts, not even .0, which JSON
// Schema would allow: what reads them mostly expects an integer. kNothing with *error set if a
// multiple has more digits than can be counted.
ExprId NumberExpr(ExprStore* store, const NumberCell& cell, std::string* error);

}  // namespace quire
