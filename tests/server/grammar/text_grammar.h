// A grammar's text, compiled, and which texts it has. For tests.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/grammar/match/parser.h"
#include "server/grammar/notation/grammar_text.h"

namespace quire::testing {

class TextGrammar {
 public:
  explicit TextGrammar(std::string_view text, const GrammarTextHooks& hooks = {}) {
    auto grammar = std::make_unique<Grammar>();
    const absl::StatusOr<RuleId> root = AddGrammarText(grammar.get(), text, hooks);
    status_ = root.status();
    if (root.ok()) Use(std::move(grammar));
  }
  explicit TextGrammar(const std::vector<std::string>& choices) {
    auto grammar = std::make_unique<Grammar>();
    const absl::StatusOr<RuleId> root = AddChoices(grammar.get(), choices);
    status_ = root.status();
    if (root.ok()) Use(std::move(grammar));
  }

  const absl::Status& status() const { return status_; }
  std::string error() const { return std::string(status_.message()); }
  size_t num_rules() const { return num_rules_; }

  // The text is in the grammar.
  bool Has(std::string_view text) const { return After(text).is_complete; }
  // A text with this beginning is in the grammar.
  bool HasBeginning(std::string_view text) const { return !After(text).is_dead(); }
  Parser::Position After(std::string_view text) const {
    if (automaton_ == nullptr) return {};
    Parser parser(automaton_.get());
    Parser::Position position = parser.start();
    for (const char byte : text) position = parser.Next(position, static_cast<uint8_t>(byte));
    gave_up_ = parser.gave_up();
    return position;
  }
  // While the last text was read.
  bool gave_up() const { return gave_up_; }
  std::shared_ptr<const Automaton> automaton() const { return automaton_; }

 private:
  void Use(std::unique_ptr<Grammar> grammar) {
    num_rules_ = grammar->rules.size();
    automaton_ = std::make_shared<const Automaton>(std::move(grammar), AutomatonLimits());
  }

  absl::Status status_;
  size_t num_rules_ = 0;
  std::shared_ptr<const Automaton> automaton_;
  mutable bool gave_up_ = false;
};

}  // namespace quire::testing
