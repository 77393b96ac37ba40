// Lark: the grammars of the Python package lark, as llguidance documents them (its docs/syntax.md).
// One thread.
//
// Supported: rules in lower case and TERMINALS in upper case, alternatives, groups, [optional],
// "text", "text"i, "a".."z", /regex/imsux, ? * + ~n ~n..m {m,n}, & and ~ within terminals, comments
// // and #, %ignore, %import common.NAME and common (A, B), %json {...} by a hook. Without meaning
// here, and so skipped: aliases (->), priorities (.2), the prefixes ! ? and _, the attribute
// [capture], an empty %llguidance {}. A definition ends where a line begins with NAME: or a
// directive, so lines may break anywhere.
// Refused by name: templates, parameters (name::_), attributes such as [lazy] and [max_tokens=10],
// special tokens <|name|>, grammar references @name, %declare, %override, %extend, %regex, %lark,
// %if and other modules than common.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/grammar/expr/grammar.h"
#include "server/grammar/notation/grammar_syntax.h"
#include "server/grammar/notation/grammar_text.h"
#include "server/grammar/notation/text_scanner.h"

namespace quire {

class LarkReader {
 public:
  // Literals are made in the grammar's store. All outlive this. `syntax->text` is valid UTF-8.
  LarkReader(Grammar* grammar, const GrammarTextHooks& hooks, GrammarSyntax* syntax)
      : grammar_(grammar),
        hooks_(hooks),
        syntax_(syntax),
        builder_(syntax),
        scanner_(syntax->text, true) {}

  absl::Status Read();

 private:
  // Definitions and directives.
  bool IsAtDefinition();
  absl::Status ReadDefinition();
  absl::Status ReadAttributes();
  absl::StatusOr<SyntaxRule> BeginRule(std::string_view name, size_t offset);
  absl::Status ReadBody(SyntaxRule rule);
  absl::Status EndRule(SyntaxRule rule);
  absl::Status ReadDirective();
  absl::Status ReadIgnore();
  absl::Status ReadImport();
  absl::Status Import(std::string_view name, std::string_view as, size_t offset);
  absl::Status ReadOptions();

  // The items of bodies.
  bool IsAtEndOfBody();
  absl::Status ReadItem();
  absl::Status ReadName();
  absl::Status ReadString();
  absl::StatusOr<std::string> TakeString();
  absl::Status ReadRegex();
  absl::Status ReadJson();
  absl::StatusOr<std::string_view> TakeBraces();
  absl::Status ReadRepeat();
  absl::Status ReadOpen();
  absl::Status Repeat(size_t offset, uint32_t min, uint32_t max);
  absl::Status AddRegex(std::string_view pattern, size_t offset);

  Grammar* const grammar_;
  const GrammarTextHooks& hooks_;
  GrammarSyntax* const syntax_;
  SyntaxBuilder builder_;
  TextScanner scanner_;
};

}  // namespace quire
