// Regular expressions as sets of texts, for structured output. See regex_parser.h for the syntax
// and for what is not supported.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "server/grammar/expr/expr_store.h"
#include "server/grammar/regex/char_set.h"
#include "server/grammar/regex/regex_parser.h"

namespace quire {

struct RegexOptions {
  Spelling spelling = Spelling::kText;
  // Whether the whole text must match, or, as in JSON Schema, any part of it.
  bool whole = false;
  RegexLimits limits = {};
};

// The spellings of the texts that match, as an expression without rules. INVALID_ARGUMENT for a
// pattern that is wrong, UNIMPLEMENTED for one whose construct is named. The caller checks
// store->overflowed().
absl::StatusOr<ExprId> RegexExpr(ExprStore* store, std::string_view pattern,
                                 const RegexOptions& options);

}  // namespace quire
