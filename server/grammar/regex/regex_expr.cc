#include "server/grammar/regex/regex_expr.h"

#include "server/grammar/regex/regex_compiler.h"

namespace quire {

absl::StatusOr<ExprId> RegexExpr(ExprStore* store, std::string_view pattern,
                                 const RegexOptions& options) {
  absl::StatusOr<ParsedRegex> parsed = ParseRegex(pattern, options.limits);
  if (!parsed.ok()) return parsed.status();
  RegexCompiler compiler(store, &parsed->tree, options.spelling);
  return options.whole ? compiler.Whole(parsed->root) : compiler.Anywhere(parsed->root);
}

}  // namespace quire
