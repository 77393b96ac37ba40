#include "server/grammar/notation/grammar_text.h"

#include "kernels/base/status_macros.h"
#include "server/grammar/notation/gbnf_reader.h"
#include "server/grammar/notation/lark_reader.h"
#include "server/grammar/notation/syntax_compiler.h"
#include "server/grammar/notation/text_scanner.h"
#include "server/text/concat.h"
#include "server/text/utf8.h"

namespace quire {

namespace {

// Whether the first definition is one of GBNF. Comments of both notations are skipped.
bool IsGbnf(std::string_view text) {
  TextScanner scanner(text, true);
  scanner.SkipSpace();
  if (std::string_view("%?!").find(scanner.Peek()) != std::string_view::npos) return false;
  scanner.TakeName();
  scanner.SkipBlanks();
  if (scanner.Peek() == '[') {  // XGrammar's rule options, which its reader refuses by name
    scanner.GoTo(scanner.offset() + scanner.Until(']').size());
    scanner.SkipBlanks();
  }
  // Texts that begin like neither are refused by the one that they look like.
  return scanner.IsNext("::=") ||
         (std::string_view(":{.[").find(scanner.Peek()) == std::string_view::npos &&
          text.find("::=") != std::string_view::npos);
}

}  // namespace

absl::StatusOr<RuleId> AddGrammarText(Grammar* grammar, std::string_view text,
                                      const GrammarTextHooks& hooks) {
  if (text.size() > kMaxGrammarTextBytes) {
    return absl::InvalidArgumentError(
        Concat("the grammar has ", text.size(), " bytes; at most ", kMaxGrammarTextBytes));
  }
  if (const auto invalid = FindInvalidUtf8(text); invalid.has_value())
    return GrammarTextError(text, *invalid, "the grammar is not valid UTF-8");
  const RuleId root = grammar->AddRule();
  GrammarSyntax syntax;
  syntax.text = text;
  const bool is_gbnf = IsGbnf(text);
  if (is_gbnf) {
    RETURN_IF_ERROR(ReadGbnf(&grammar->store, &syntax));
  } else {
    RETURN_IF_ERROR(LarkReader(grammar, hooks, &syntax).Read());
  }
  SyntaxCompiler compiler(grammar, &syntax);
  ASSIGN_OR_RETURN(grammar->rules[root], compiler.Compile(is_gbnf ? "root" : "start"));
  return root;
}

}  // namespace quire
