// Grammars as users write them: GBNF (llama.cpp's grammars, which vLLM, SGLang and XGrammar take,
// too) and Lark (as llguidance documents it). The headers of the readers, gbnf_reader.h and
// lark_reader.h, say which constructs are supported and which are refused.
//
// Texts are matched without a lexer: a text is in the grammar if some reading of it is. Lark's own
// lexer takes the longest terminal, so it can refuse texts that are accepted here, for example
// `iffy` as the keyword `if` and the name `fy`.
//
// Errors are INVALID_ARGUMENT and say the line, the column (in characters, from 1) and what is
// wrong. Any thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/grammar/expr/grammar.h"

namespace quire {

inline constexpr size_t kMaxGrammarTextBytes = size_t{512} << 10;
inline constexpr size_t kMaxGrammarTextRules = 10'000;
// Groups within groups.
inline constexpr size_t kMaxGrammarTextNesting = 100;
inline constexpr uint32_t kMaxGrammarTextRepeats = 100'000;
inline constexpr size_t kMaxChoices = 100'000;
inline constexpr size_t kMaxChoicesBytes = size_t{1} << 20;  // of all choices together

struct GrammarTextHooks {
  // Adds rules for the values of a JSON schema, which Lark's %json {...} has inline, and returns
  // the one to call. Without it %json is refused.
  std::function<absl::StatusOr<RuleId>(Grammar* grammar, std::string_view schema)> json_schema;
};

// Appends the rules of the text, and returns the one that has the grammar's texts: the first one
// appended. The notation is GBNF if the first definition is NAME ::= ..., otherwise Lark. After an
// error the grammar is useless.
absl::StatusOr<RuleId> AddGrammarText(Grammar* grammar, std::string_view text,
                                      const GrammarTextHooks& hooks);

// Appends a rule that has exactly these texts. At least one; the same one may come twice.
absl::StatusOr<RuleId> AddChoices(Grammar* grammar, absl::Span<const std::string> choices);

}  // namespace quire
