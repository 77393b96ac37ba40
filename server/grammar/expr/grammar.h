// A context-free grammar: rules, each with an expression that may call rules. The first rule is the
// whole. Built by one thread; then an Automaton owns it.
#pragma once

#include <memory>
#include <vector>

#include "server/grammar/expr/expr_store.h"

namespace quire {

struct Grammar {
  explicit Grammar(size_t max_bytes = size_t{64} << 20) : store(max_bytes) {}

  // A rule without strings, until its expression is set.
  RuleId AddRule(ExprId expr = ExprStore::kNothing) {
    rules.push_back(expr);
    return static_cast<RuleId>(rules.size() - 1);
  }

  ExprStore store;
  std::vector<ExprId> rules;
  // Expressions to which many states come back, such as the rest of a JSON string: their token sets
  // (match/token_set.h) are the base of others'.
  std::vector<ExprId> landmarks;
};

}  // namespace quire
