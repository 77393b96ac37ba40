// ValueRules: a grammar rule for each formula, with the texts of its values. One thread.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "server/grammar/expr/grammar.h"
#include "server/grammar/schema/schema_shapes.h"
#include "server/grammar/schema/shape.h"

namespace quire {

class ValueRules {
 public:
  // Both outlive this.
  ValueRules(Grammar* grammar, SchemaShapes* shapes, bool has_white_space);

  // The rule of a formula's values; its expression is set by Finish.
  RuleId RuleOf(FormulaId formula);
  // Sets the expressions of all rules. The first error, of the schemas or of this.
  absl::Status Finish();

 private:
  // A call of the formula's rule, or its texts, if they are short.
  ExprId ValueOf(FormulaId formula);
  ExprId TextsOf(const Shape& shape);
  ExprId StringOf(const StringCell& cell);
  ExprId ArrayOf(const ArrayCell& cell);
  ExprId ItemsOf(const ArrayCell& cell);
  ExprId ContainingItems(const ArrayCell& cell);
  ExprId ObjectOf(const ObjectCell& cell);
  ExprId OtherMember(const ObjectCell& cell, const std::vector<ObjectCell::NameRule>& fulfilled);
  ExprId OtherMembersThatFulfil(const ObjectCell& cell, ExprId other);
  ExprId NameOf(ExprId names, const ObjectCell& cell);
  ExprId Bracketed(char open, ExprId content, bool may_be_empty, char close);
  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }

  Grammar& grammar_;
  ExprStore& store_;
  SchemaShapes& shapes_;
  const ExprId space_;  // white space that may be there
  const ExprId comma_, colon_;
  absl::flat_hash_map<FormulaId, RuleId> rules_;
  absl::flat_hash_map<ExprId, RuleId> name_rules_;
  std::vector<FormulaId> waiting_;  // formulas whose rules have no expression yet
  absl::Status status_;
};

}  // namespace quire
