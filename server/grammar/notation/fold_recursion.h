// Rules whose only recursion is at the end or at the start of their alternatives are loops:
// `ws: (" " ws)?` is " "*, `list: list "," item | item` is item ("," item)*. As loops they need no
// parser, and mostly no rule. Source: Arden, "Delayed logic and finite state machines" (1961).
#pragma once

#include <optional>

#include "server/grammar/expr/expr_store.h"

namespace quire {

// The strings of `rule`, whose expression is `expr`, without a call of the rule; nothing if it
// calls itself elsewhere. `expr` has no calls through which other rules call `rule`.
std::optional<ExprId> FoldRecursion(ExprStore* store, ExprId expr, RuleId rule);

}  // namespace quire
