// A JSON schema's text as an automaton, and whether it has a JSON text, byte by byte: for tests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/grammar/expr/automaton.h"
#include "server/grammar/match/parser.h"
#include "server/grammar/schema/schema_grammar.h"
#include "server/text/json_tree.h"

namespace quire {

class CompiledSchema {
 public:
  static absl::StatusOr<CompiledSchema> Create(const JsonTree& schema,
                                               const SchemaOptions& options = {}) {
    auto grammar = std::make_unique<Grammar>();
    const RuleId root = grammar->AddRule();
    const absl::StatusOr<RuleId> rule = AddJsonSchema(grammar.get(), schema, options);
    if (!rule.ok()) return rule.status();
    grammar->rules[root] = grammar->store.Rule(*rule);
    CompiledSchema compiled;
    compiled.automaton_ = std::make_shared<Automaton>(std::move(grammar), AutomatonLimits());
    if (!compiled.automaton_->ok()) return compiled.automaton_->status();
    return compiled;
  }
  static absl::StatusOr<CompiledSchema> Create(std::string_view schema,
                                               const SchemaOptions& options = {}) {
    size_t num_values_left = size_t{1} << 20;
    const absl::StatusOr<JsonTree> tree = ParseJsonTree(schema, &num_values_left, 500);
    if (!tree.ok()) return tree.status();
    return Create(*tree, options);
  }

  // No text is valid.
  bool is_empty() const { return automaton_->StartOf(0).is_dead(); }

  // The text is valid as a whole, or only `length` bytes of it may begin a valid one.
  struct Verdict {
    bool is_valid;
    size_t length;
    bool gave_up;  // neither is known
  };
  Verdict Judge(std::string_view text) const {
    Parser parser(automaton_.get());
    Parser::Position position = parser.start();
    size_t length = 0;
    for (; length < text.size(); ++length) {
      position = parser.Next(position, static_cast<uint8_t>(text[length]));
      if (position.is_dead() || parser.gave_up()) return {false, length, parser.gave_up()};
    }
    return {position.is_complete, length, false};
  }
  bool Accepts(std::string_view text) const { return Judge(text).is_valid; }

  const Automaton& automaton() const { return *automaton_; }
  const std::shared_ptr<const Automaton>& shared_automaton() const { return automaton_; }

 private:
  std::shared_ptr<const Automaton> automaton_;
};

}  // namespace quire
