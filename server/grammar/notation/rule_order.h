// The order in which rules are made: those that a rule calls before it, as far as there is such an
// order. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "server/grammar/notation/grammar_syntax.h"

namespace quire {

// Rules that call each other, directly or through others; or one rule.
struct RuleKnot {
  std::vector<uint32_t> rules;  // indexes of GrammarSyntax::rules
  bool is_recursive = false;
};

// The knots of all rules that `roots` reach, called ones first. Every name is defined.
std::vector<RuleKnot> OrderRules(const GrammarSyntax& syntax, absl::Span<const uint32_t> roots);

}  // namespace quire
