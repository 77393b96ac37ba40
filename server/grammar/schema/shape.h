// Shape: the set of JSON values that a schema allows, type by type, as alternatives ("cells") whose
// conditions all hold: a normal form on which schemas are united, intersected and complemented.
// What a member or an item must be is not spelled out in it, but named by a formula (formula.h), so
// that shapes of recursive schemas are finite. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/grammar/expr/expr_store.h"
#include "server/grammar/schema/number_expr.h"

namespace quire {

// A conjunction of schemas, interned.
using FormulaId = uint32_t;
inline constexpr FormulaId kAnyValue = 0;
inline constexpr FormulaId kNoValue = 1;

// Texts with `min` to `max` characters that are in `content`, which is in the canonical spelling
// inside a JSON string (json_spelling.h), and ExprStore::kAnything if it does not matter; or one of
// `texts`, so spelled, if there are any: then nothing else counts.
struct StringCell {
  uint32_t min = 0, max = kUnbounded;
  ExprId content = ExprStore::kAnything;
  std::vector<std::string> texts = {};

  friend bool operator==(const StringCell&, const StringCell&) = default;
};

struct ArrayCell {
  std::vector<FormulaId> prefix = {};
  FormulaId rest = kAnyValue;  // the items behind the prefix
  uint32_t min = 0, max = kUnbounded;
  // At least `min` and at most `max` items are of the formula.
  struct Contains {
    FormulaId value;
    uint32_t min = 1, max = kUnbounded;

    friend bool operator==(const Contains&, const Contains&) = default;
  };
  std::vector<Contains> contains = {};
  bool is_unique = false;

  FormulaId item(size_t i) const { return i < prefix.size() ? prefix[i] : rest; }

  friend bool operator==(const ArrayCell&, const ArrayCell&) = default;
};

struct ObjectCell {
  struct Member {
    std::string name;
    FormulaId value;
    bool is_required;

    friend bool operator==(const Member&, const Member&) = default;
  };
  // Members that no Member names and whose name is in `names` have values of the formula.
  struct NameRule {
    ExprId names;
    FormulaId value;

    friend bool operator==(const NameRule&, const NameRule&) = default;
  };
  std::vector<Member> members = {};  // in the order in which they are written
  std::vector<NameRule> rules = {};
  std::vector<NameRule> some = {};  // for each, some member that no Member names fulfils it
  uint32_t min = 0, max = kUnbounded;

  // A bit of 64 for each name, as far as ShapeAlgebra has set them: shows at once that a cell does
  // not have all objects of another. No part of the value.
  struct Bits {
    uint64_t named = 0, required = 0, absent = 0;

    friend bool operator==(const Bits&, const Bits&) { return true; }
  };
  Bits bits = {};

  friend bool operator==(const ObjectCell&, const ObjectCell&) = default;
};

struct Shape {
  bool has_null = false;
  bool has_true = false, has_false = false;
  std::vector<NumberCell> numbers = {};
  std::vector<StringCell> strings = {};
  std::vector<ArrayCell> arrays = {};
  std::vector<ObjectCell> objects = {};

  size_t num_cells() const {
    return numbers.size() + strings.size() + arrays.size() + objects.size();
  }
  friend bool operator==(const Shape&, const Shape&) = default;
};

inline Shape AnyShape() { return {true, true, true, {{}}, {{}}, {{}}, {{}}}; }

}  // namespace quire
