// How JSON is written in answers: strings, white space, literals.
#pragma once

#include <string>
#include <string_view>

#include "server/grammar/expr/expr_store.h"

namespace quire {

// The contents of a JSON string in canonical spelling: characters as they are, escapes only where
// JSON requires them.
std::string JsonSpelling(std::string_view text);

// Contents of JSON strings with `min` to `max` characters: in canonical spelling, or with every
// escape that JSON knows (a character of two escapes counts as one).
ExprId JsonText(ExprStore* store, uint32_t min, uint32_t max);
ExprId FreeJsonText(ExprStore* store, uint32_t min, uint32_t max);
inline ExprId AnyJsonText(ExprStore* store) { return JsonText(store, 0, kUnbounded); }

// `content` between quotes.
ExprId Quoted(ExprStore* store, ExprId content);

// White space that may stand between two tokens: nothing, a space, or a line end with an
// indentation. Bounded, since a model that may write white space forever at times does.
ExprId WhiteSpace(ExprStore* store);

}  // namespace quire
