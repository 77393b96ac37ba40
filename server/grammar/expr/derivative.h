// The derivatives of expressions: what may follow after a byte, or after a rule's string.
#pragma once

#include <cstdint>
#include <vector>

#include "server/grammar/expr/expr_store.h"

namespace quire {

// The strings s for which `byte` s is in `id`. Calls of rules begin with no byte: see CallsOf.
ExprId Derivative(ExprStore* store, ExprId id, uint8_t byte);

// `id` has every string that is one of `rule` followed by one of `rest`.
struct RuleCall {
  RuleId rule;
  ExprId rest;

  friend bool operator==(const RuleCall&, const RuleCall&) = default;
};

// How the strings of an expression may begin. A complement or intersection counts as if it
// began with a byte.
struct Beginning {
  bool has_byte = false, has_call = false;
};

Beginning BeginningOf(const ExprStore& store, ExprId id);

// The calls with which the strings of `id` may begin, each once.
std::vector<RuleCall> CallsOf(ExprStore* store, ExprId id);

// `id` without its counts: see Relax.
struct Relaxed {
  ExprId expr;
  uint32_t slack;
};

// Repeats that may be many become endless, and those that must be many must be more than anybody
// ever sees. Both have the same beginnings of strings as far as `slack` bytes, exclusive. Inside an
// intersection counts stay: the other operand may need them.
Relaxed Relax(ExprStore* store, ExprId id);

}  // namespace quire
