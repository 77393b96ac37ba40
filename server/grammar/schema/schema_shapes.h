// SchemaShapes: the shapes of a document's schemas. A formula is a conjunction of schemas,
// constants and negated formulas; equal ones have one id. One thread.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/grammar/schema/schema_document.h"
#include "server/grammar/schema/shape.h"
#include "server/grammar/schema/shape_algebra.h"
#include "server/text/json_tree.h"

namespace quire {

struct SchemaLimits {
  size_t max_cells = 5'000;      // of one shape
  size_t max_formulas = 20'000;  // of a document
};

class SchemaShapes : public Formulas {
 public:
  // Both outlive this.
  SchemaShapes(ExprStore* store, const SchemaDocument* document, const SchemaLimits& limits);

  FormulaId FormulaOf(const JsonTree& schema);
  // The values of a formula; kept. After an error, anything.
  const Shape& ShapeOf(FormulaId formula);

  FormulaId Both(FormulaId a, FormulaId b) override;
  FormulaId Not(FormulaId formula) override;
  bool IsSurelyEmpty(FormulaId formula) override;
  bool Implies(FormulaId a, FormulaId b) override;

  ShapeAlgebra& algebra() { return algebra_; }
  // The place of the formula's first schema, for errors.
  std::string PlaceOf(FormulaId formula) const;

  // The first error: where it is in the schema, and what to change. INVALID_ARGUMENT for what is no
  // schema, UNIMPLEMENTED for what is not enforced, RESOURCE_EXHAUSTED beyond the limits.
  const absl::Status& status() const { return status_; }

 private:
  enum class LiteralKind : uint8_t { kSchema, kConstant, kNotFormula };
  struct Literal {
    LiteralKind kind;
    const JsonTree* tree = nullptr;  // null for kNotFormula
    FormulaId formula = 0;           // of kNotFormula

    friend auto operator<=>(const Literal&, const Literal&) = default;
  };

  FormulaId Intern(std::vector<Literal> literals);
  // The formula's shape if it does not need one that is being made: null for recursive schemas,
  // whose members' shapes are only looked at to see whether they are empty.
  const Shape* TryShapeOf(FormulaId formula);
  bool IsList(FormulaId formula) const;
  Shape ShapeOfLiteral(const Literal& literal);
  Shape ShapeOfSchema(const JsonTree& schema);
  Shape ShapeOfConstant(const JsonTree& value);
  Shape ShapeOfSub(const JsonTree& schema) { return ShapeOf(FormulaOf(schema)); }
  bool AreDisjoint(const Shape& a, const Shape& b);

  // One keyword, or all keywords of one type of value. In schema_keywords.cc and typed_keywords.cc.
  Shape ShapeOfKeyword(const JsonTree& schema, const std::string& key, const JsonTree& value);
  Shape Type(const JsonTree& schema, const JsonTree& value);
  Shape Enum(const JsonTree& schema, const JsonTree& value);
  Shape Combined(const JsonTree& schema, const std::string& key, const JsonTree& value);
  Shape OneOf(std::vector<Shape> shapes);
  Shape If(const JsonTree& schema, const JsonTree& value);
  Shape Ref(const JsonTree& schema, const JsonTree& value);
  Shape Dependencies(const JsonTree& schema, const std::string& key, const JsonTree& value);
  Shape Numbers(const JsonTree& schema);
  Shape Strings(const JsonTree& schema);
  Shape Arrays(const JsonTree& schema);
  Shape Objects(const JsonTree& schema);
  void AddDeclared(const JsonTree& schema, ObjectCell* cell);
  void AddNameRules(const JsonTree& schema, ObjectCell* cell);
  void AddRequired(const JsonTree& schema, ObjectCell* cell);
  std::optional<NumberBound> Bound(const JsonTree& schema, const std::string& key);
  uint32_t Count(const JsonTree& schema, const std::string& key, uint32_t otherwise);
  ExprId PatternOf(const JsonTree& schema, const std::string& key, const std::string& pattern,
                   bool whole);

  void Fail(const JsonTree& schema, absl::string_view key, const absl::Status& status);
  void FailAt(FormulaId formula, const absl::Status& status);
  void Invalid(const JsonTree& schema, absl::string_view key, absl::string_view must);

  ExprStore& store_;
  const SchemaDocument& document_;
  const SchemaLimits limits_;
  ShapeAlgebra algebra_;
  std::map<std::vector<Literal>, FormulaId> formulas_;
  std::map<std::string, const JsonTree*> small_;  // by text: schemas that many members share
  std::map<std::pair<std::string, bool>, ExprId> patterns_;
  std::vector<std::vector<Literal>> literals_;  // by formula
  std::vector<std::unique_ptr<Shape>> shapes_;  // by formula; null: not yet known
  std::vector<bool> is_open_;                   // by formula: its shape is being made
  std::vector<bool> is_unknown_;                // by formula: TryShapeOf has failed
  bool is_trying_ = false;                      // TryShapeOf, and it
  bool met_open_ = false;                       // needs what is being made
  int depth_ = 0;
  absl::Status status_;
};

}  // namespace quire
