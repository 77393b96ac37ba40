// GBNF: the grammars of llama.cpp (its grammars/README.md), with what XGrammar's dialect adds.
// One thread.
//
// Supported: NAME ::= alternatives with |, groups, "literals", [classes] with ranges and ^, the
// escapes of C, \xHH, \uHHHH and \UHHHHHHHH, . for any character, * + ? {m} {m,} {m,n}, and # for
// comments. A definition ends where a line begins with NAME ::=, so lines may break anywhere.
// Refused by name: tokens (<[1000]>, <name>, !<name>), XGrammar's lookahead (= ...), its rule
// options NAME[lazy] ::= and its macros, such as TagDispatch(...).
#pragma once

#include "absl/status/status.h"
#include "server/grammar/notation/grammar_syntax.h"

namespace quire {

// Reads `syntax->text`, which is valid UTF-8. Literals and classes are made in `store`.
absl::Status ReadGbnf(ExprStore* store, GrammarSyntax* syntax);

}  // namespace quire
