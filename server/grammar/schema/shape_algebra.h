// Unions, intersections and complements of shapes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "server/grammar/expr/expr_store.h"
#include "server/grammar/schema/shape.h"

namespace quire {

// The algebra's view of the schemas: formulas and their conjunctions.
class Formulas {
 public:
  virtual ~Formulas() = default;
  virtual FormulaId Both(FormulaId a, FormulaId b) = 0;
  virtual FormulaId Not(FormulaId formula) = 0;
  // Whether it surely has no value; true only if that is easy to see.
  virtual bool IsSurelyEmpty(FormulaId formula) = 0;
  // Whether every value of `a` surely is one of `b`; true only if that is easy to see.
  virtual bool Implies(FormulaId a, FormulaId b) = 0;
};

class ShapeAlgebra {
 public:
  // Both outlive this. Shapes with more than `max_cells` cells are an error.
  ShapeAlgebra(ExprStore* store, Formulas* formulas, size_t max_cells)
      : store_(*store), formulas_(*formulas), max_cells_(max_cells) {}

  Shape Intersect(const Shape& a, const Shape& b);
  Shape Unite(Shape a, const Shape& b);
  Shape Complement(const Shape& shape);

  // The texts of a cell, in canonical spelling.
  ExprId ContentOf(const StringCell& cell);
  // Takes over what the rules say of a member that is about to have a name; kAnyValue if nothing.
  FormulaId FormulaOfName(const ObjectCell& cell, const std::string& name);
  // Whether the text, spelled as in JSON, is in `content`.
  bool Has(ExprId content, std::string_view spelled);
  bool HasName(ExprId names, const std::string& name);

  // UNIMPLEMENTED names what cannot be complemented; RESOURCE_EXHAUSTED for too many cells.
  const absl::Status& status() const { return status_; }

 private:
  template <typename Cell>
  std::vector<Cell> IntersectAll(const std::vector<Cell>& a, const std::vector<Cell>& b);
  template <typename Cell>
  std::vector<Cell> ComplementAll(const std::vector<Cell>& cells);
  void Intersect(const NumberCell& a, const NumberCell& b, std::vector<NumberCell>* cells);
  void Intersect(const StringCell& a, const StringCell& b, std::vector<StringCell>* cells);
  void Intersect(const ArrayCell& a, const ArrayCell& b, std::vector<ArrayCell>* cells);
  void Intersect(const ObjectCell& a, const ObjectCell& b, std::vector<ObjectCell>* cells);
  bool Contains(const ObjectCell& cell, const ObjectCell& other);
  bool MayContain(const ObjectCell& cell, const ObjectCell& other);
  void AddUncontained(ObjectCell cell, std::vector<ObjectCell>* cells);
  static const ObjectCell::Member* MemberOfCell(const ObjectCell& cell, const std::string& name);
  bool MergeMembers(const ObjectCell& a, const ObjectCell& b, ObjectCell* both);
  std::vector<NumberCell> Complement(const NumberCell& cell);
  std::vector<StringCell> Complement(const StringCell& cell);
  std::vector<ArrayCell> Complement(const ArrayCell& cell);
  std::vector<ObjectCell> Complement(const ObjectCell& cell);
  void Check(size_t num_cells);
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  ExprStore& store_;
  Formulas& formulas_;
  const size_t max_cells_;
  size_t num_pairs_ = 0;
  size_t num_compared_ = 0;
  absl::flat_hash_map<uint64_t, ExprId> derivatives_;  // by content and byte: see Has
  absl::Status status_;
};

}  // namespace quire
