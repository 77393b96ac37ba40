// Makes a grammar's rules of a syntax tree. Rules and terminals that are small and without
// recursion are written out where they are used; rules that recur only at their start or end become
// loops; the rest become rules. One thread.
#pragma once

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/grammar/expr/grammar.h"
#include "server/grammar/notation/expr_shape.h"
#include "server/grammar/notation/grammar_syntax.h"
#include "server/grammar/notation/rule_order.h"

namespace quire {

class SyntaxCompiler {
 public:
  // Both outlive this.
  SyntaxCompiler(Grammar* grammar, const GrammarSyntax* syntax)
      : grammar_(grammar), syntax_(syntax), shapes_(&grammar->store) {}

  // The expression of all texts of the rule `root_name`. INVALID_ARGUMENT names the rule that is
  // missing, that has no string, that a terminal may not use, and so on.
  absl::StatusOr<ExprId> Compile(std::string_view root_name);

 private:
  // It stands where a rule is used.
  struct Compiled {
    ExprId expr = ExprStore::kNothing;
    uint32_t depth = 0;  // of the tree that is written out there; zero for a call
  };

  absl::Status CheckNames() const;
  absl::Status CompileKnot(const RuleKnot& knot);
  absl::Status CompileRecursive(const RuleKnot& knot);
  // Whether it is written out where it is used, or called there.
  bool IsForPlace(const Compiled& compiled);
  // The tree's expression, in a terminal or in a rule. Recursion ends at kMaxSyntaxDepth.
  absl::StatusOr<Compiled> Of(SyntaxId id, bool in_terminal);
  absl::StatusOr<Compiled> OfName(const SyntaxNode& node, bool in_terminal);
  absl::StatusOr<Compiled> OfList(const SyntaxNode& node, bool in_terminal);
  absl::StatusOr<Compiled> OfNot(const SyntaxNode& node);
  ExprId Sequence(const std::vector<ExprId>& parts);
  ExprId Choice(std::vector<ExprId> branches);
  // With a call in the place of an expression with a wide loop.
  ExprId Called(ExprId expr);
  // A call of a rule with this expression.
  ExprId AsRule(ExprId expr);
  ExprId WithIgnored(ExprId lexeme);
  void MakeIgnored();
  absl::Status CheckLive(const std::vector<RuleKnot>& knots);
  absl::Status ErrorAt(size_t offset, std::string_view message) const;
  std::string_view NameOf(uint32_t rule) const {
    return syntax_->names[syntax_->rules[rule].name].text;
  }

  Grammar* const grammar_;
  const GrammarSyntax* const syntax_;
  ExprShapes shapes_;
  std::vector<Compiled> compiled_;  // by rule of the syntax
  std::vector<ExprId> whole_;       // likewise: its expression, or a call of it
  ExprId ignored_ = ExprStore::kEmpty;
  absl::flat_hash_map<ExprId, RuleId> rule_of_expr_;  // of AsRule
};

}  // namespace quire
