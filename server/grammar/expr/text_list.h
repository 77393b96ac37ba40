// A list of texts as an expression.
#pragma once

#include <string_view>
#include <vector>

#include "server/grammar/expr/expr_store.h"

namespace quire {

// Exactly these texts, in any order; the same one may come twice. A tree of their common
// beginnings: however long the list is, a state of it has no more alternatives than next bytes.
ExprId OneOfTexts(ExprStore* store, std::vector<std::string_view> texts);

}  // namespace quire
