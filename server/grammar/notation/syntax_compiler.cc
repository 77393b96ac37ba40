#include "server/grammar/notation/syntax_compiler.h"

#include <algorithm>
#include <utility>

#include "kernels/base/status_macros.h"
#include "server/grammar/expr/automaton.h"
#include "server/grammar/expr/liveness.h"
#include "server/grammar/notation/fold_recursion.h"
#include "server/grammar/notation/lark_common.h"
#include "server/grammar/notation/text_scanner.h"
#include "server/grammar/regex/char_set.h"
#include "server/text/concat.h"

namespace quire {

absl::Status SyntaxCompiler::ErrorAt(size_t offset, std::string_view message) const {
  return GrammarTextError(syntax_->text, offset, message);
}

absl::StatusOr<ExprId> SyntaxCompiler::Compile(std::string_view root_name) {
  RETURN_IF_ERROR(CheckNames());
  const auto root =
      std::find_if(syntax_->names.begin(), syntax_->names.end(), [&](const SyntaxName& name) {
        return name.text == root_name && name.rule != SyntaxName::kUndefined;
      });
  if (root == syntax_->names.end()) {
    return absl::InvalidArgumentError(
        Concat("no rule ", root_name, " is defined, with which the grammar would begin"));
  }
  compiled_.resize(syntax_->rules.size());
  whole_.resize(syntax_->rules.size());
  // Ignored terminals first: the rules have them between their lexemes.
  std::vector<RuleKnot> knots = OrderRules(*syntax_, syntax_->ignored);
  for (const RuleKnot& knot : knots) RETURN_IF_ERROR(CompileKnot(knot));
  MakeIgnored();
  for (RuleKnot& knot : OrderRules(*syntax_, {&root->rule, 1})) {
    RETURN_IF_ERROR(CompileKnot(knot));
    knots.push_back(std::move(knot));
  }
  RETURN_IF_ERROR(CheckLive(knots));
  return grammar_->store.Concat(ignored_, whole_[root->rule]);
}

absl::Status SyntaxCompiler::CheckNames() const {
  for (const SyntaxNode& node : syntax_->nodes) {
    if (node.kind != SyntaxNode::Kind::kName) continue;
    const SyntaxName& name = syntax_->names[node.value];
    if (name.rule != SyntaxName::kUndefined) continue;
    return ErrorAt(node.offset, Concat(name.text, " is not defined",
                                       LarkCommonTerminal(name.text).empty()
                                           ? ""
                                           : Concat("; in Lark, %import common.", name.text,
                                                    " would define it")));
  }
  return absl::OkStatus();
}

absl::Status SyntaxCompiler::CompileKnot(const RuleKnot& knot) {
  if (knot.is_recursive) return CompileRecursive(knot);
  const uint32_t rule = knot.rules[0];
  const SyntaxRule& syntax = syntax_->rules[rule];
  Compiled compiled;
  ASSIGN_OR_RETURN(compiled, Of(syntax.root, syntax.is_terminal));
  whole_[rule] = compiled.expr;
  compiled_[rule] = compiled;
  return absl::OkStatus();
}

absl::Status SyntaxCompiler::CompileRecursive(const RuleKnot& knot) {
  for (const uint32_t rule : knot.rules) {
    if (syntax_->rules[rule].is_terminal) {
      return ErrorAt(syntax_->rules[rule].offset,
                     Concat("the terminal ", NameOf(rule), " calls itself"));
    }
    compiled_[rule].expr = whole_[rule] = grammar_->store.Rule(grammar_->AddRule());
  }
  for (const uint32_t rule : knot.rules) {
    Compiled compiled;
    ASSIGN_OR_RETURN(compiled, Of(syntax_->rules[rule].root, false));
    ExprStore& store = grammar_->store;
    if (store.overflowed()) return absl::OkStatus();
    const RuleId id = store.rule(compiled_[rule].expr);
    grammar_->rules[id] = compiled.expr;
    if (knot.rules.size() > 1) continue;
    const std::optional<ExprId> folded = FoldRecursion(&store, compiled.expr, id);
    if (!folded.has_value()) continue;
    grammar_->rules[id] = whole_[rule] = *folded;
    compiled.expr = *folded;
    if (IsForPlace(compiled)) compiled_[rule] = compiled;
  }
  return absl::OkStatus();
}

bool SyntaxCompiler::IsForPlace(const Compiled& compiled) {
  if (grammar_->store.kind(compiled.expr) == ExprKind::kRule) return true;
  return !grammar_->store.has_rules(compiled.expr) && !shapes_.HasWideLoop(compiled.expr) &&
         shapes_.IsSmall(compiled.expr) && compiled.depth < kMaxSyntaxDepth / 2;
}

absl::StatusOr<SyntaxCompiler::Compiled> SyntaxCompiler::Of(SyntaxId id, bool in_terminal) {
  const SyntaxNode& node = syntax_->nodes[id];
  switch (node.kind) {
    case SyntaxNode::Kind::kText: {
      const bool is_lexeme = !in_terminal && node.value != ExprStore::kEmpty;
      return Compiled{.expr = is_lexeme ? WithIgnored(node.value) : node.value, .depth = 1};
    }
    case SyntaxNode::Kind::kName:
      return OfName(node, in_terminal);
    case SyntaxNode::Kind::kRule:
      if (in_terminal) return ErrorAt(node.offset, "a terminal cannot have rules in it");
      return Compiled{.expr = WithIgnored(grammar_->store.Rule(node.value)), .depth = 1};
    case SyntaxNode::Kind::kNot: {
      Compiled negated;
      ASSIGN_OR_RETURN(negated, OfNot(node));
      if (!in_terminal) negated.expr = WithIgnored(negated.expr);
      return negated;
    }
    case SyntaxNode::Kind::kRepeat: {
      Compiled repeated;
      ASSIGN_OR_RETURN(repeated, Of(syntax_->children_of(node)[0], in_terminal));
      return Compiled{.expr = grammar_->store.Repeat(repeated.expr, node.min, node.max),
                      .depth = repeated.depth + 1};
    }
    case SyntaxNode::Kind::kSequence:
    case SyntaxNode::Kind::kChoice:
    case SyntaxNode::Kind::kBoth:
      return OfList(node, in_terminal);
  }
  return Compiled{};
}

absl::StatusOr<SyntaxCompiler::Compiled> SyntaxCompiler::OfName(const SyntaxNode& node,
                                                                bool in_terminal) {
  const uint32_t rule = syntax_->names[node.value].rule;
  Compiled used = compiled_[rule];
  if (in_terminal && !syntax_->rules[rule].is_terminal) {
    return ErrorAt(node.offset, Concat("a terminal cannot have the rule ", NameOf(rule), " in it"));
  }
  if (!in_terminal) {
    if (!IsForPlace(used)) used.expr = AsRule(used.expr);
    if (grammar_->store.kind(used.expr) == ExprKind::kRule) used.depth = 0;
    if (syntax_->rules[rule].is_terminal) used.expr = WithIgnored(used.expr);
  }
  ++used.depth;
  return used;
}

absl::StatusOr<SyntaxCompiler::Compiled> SyntaxCompiler::OfList(const SyntaxNode& node,
                                                                bool in_terminal) {
  const bool is_both = node.kind == SyntaxNode::Kind::kBoth;
  std::vector<ExprId> exprs;
  uint32_t depth = 0;
  for (const SyntaxId child : syntax_->children_of(node)) {
    Compiled one;
    ASSIGN_OR_RETURN(one, Of(child, in_terminal || is_both));
    exprs.push_back(one.expr);
    depth = std::max(depth, one.depth + 1);
  }
  if (depth > kMaxSyntaxDepth)
    return ErrorAt(node.offset, "the terminals within this one are nested too deep");
  if (is_both) {
    const ExprId both = grammar_->store.And(exprs);
    return Compiled{.expr = in_terminal ? both : WithIgnored(both), .depth = depth};
  }
  const bool is_choice = node.kind == SyntaxNode::Kind::kChoice;
  return Compiled{.expr = is_choice ? Choice(std::move(exprs)) : Sequence(exprs), .depth = depth};
}

// The texts that are valid UTF-8 and not strings of the child.
absl::StatusOr<SyntaxCompiler::Compiled> SyntaxCompiler::OfNot(const SyntaxNode& node) {
  Compiled negated;
  ASSIGN_OR_RETURN(negated, Of(syntax_->children_of(node)[0], true));
  ExprStore& store = grammar_->store;
  return Compiled{.expr = store.And(store.Not(negated.expr), AnyText(&store, Spelling::kText)),
                  .depth = negated.depth + 1};
}

// Where something calls rules, the runs beside it that have wide loops become rules, too.
ExprId SyntaxCompiler::Sequence(const std::vector<ExprId>& parts) {
  ExprStore& store = grammar_->store;
  const bool has_rules = std::any_of(parts.begin(), parts.end(),
                                     [&store](ExprId part) { return store.has_rules(part); });
  ExprId sequence = ExprStore::kEmpty, run = ExprStore::kEmpty;
  for (size_t i = parts.size(); i-- > 0;) {
    if (has_rules && store.has_rules(parts[i])) {
      sequence = store.Concat(parts[i], store.Concat(Called(run), sequence));
      run = ExprStore::kEmpty;
    } else {
      run = store.Concat(parts[i], run);
    }
  }
  return store.Concat(has_rules ? Called(run) : run, sequence);
}

ExprId SyntaxCompiler::Choice(std::vector<ExprId> branches) {
  ExprStore& store = grammar_->store;
  const bool has_rules = std::any_of(branches.begin(), branches.end(),
                                     [&store](ExprId branch) { return store.has_rules(branch); });
  if (has_rules) {
    for (ExprId& branch : branches) branch = Called(branch);
  }
  return store.Or(branches);
}

ExprId SyntaxCompiler::Called(ExprId expr) {
  return shapes_.HasWideLoop(expr) ? AsRule(expr) : expr;
}

ExprId SyntaxCompiler::AsRule(ExprId expr) {
  const auto [at, is_new] = rule_of_expr_.try_emplace(expr, 0);
  if (is_new) at->second = grammar_->AddRule(expr);
  return grammar_->store.Rule(at->second);
}

ExprId SyntaxCompiler::WithIgnored(ExprId lexeme) {
  if (ignored_ == ExprStore::kEmpty) return lexeme;
  return Sequence({lexeme, ignored_});
}

void SyntaxCompiler::MakeIgnored() {
  if (syntax_->ignored.empty()) return;
  ExprStore& store = grammar_->store;
  std::vector<ExprId> terminals;
  for (const uint32_t rule : syntax_->ignored) {
    ExprId one = compiled_[rule].expr;
    // Any number of any number of spaces.
    if (store.kind(one) == ExprKind::kRepeat && store.min(one) <= 1 && store.max(one) == kUnbounded)
      one = store.first(one);
    terminals.push_back(one);
  }
  const ExprId loop = store.Star(store.Or(terminals));
  ignored_ = IsForPlace({.expr = loop}) ? loop : AsRule(loop);
}

// The first rule without strings, called ones first, is the one to blame.
absl::Status SyntaxCompiler::CheckLive(const std::vector<RuleKnot>& knots) {
  if (grammar_->store.overflowed())
    return absl::InvalidArgumentError(
        "the grammar is too large: it needs more memory than allowed");
  const std::vector<uint8_t> classes = grammar_->store.ByteClasses();
  std::vector<uint8_t> byte_of_class;
  for (int byte = 0; byte < 256; ++byte) {
    if (classes[byte] == byte_of_class.size()) byte_of_class.push_back(static_cast<uint8_t>(byte));
  }
  Liveness liveness(grammar_, std::move(byte_of_class), AutomatonLimits().max_search);
  for (const RuleKnot& knot : knots) {
    for (const uint32_t rule : knot.rules) {
      if (liveness.IsLive(whole_[rule])) continue;
      return ErrorAt(syntax_->rules[rule].offset,
                     liveness.gave_up() ? Concat(NameOf(rule), " is too complex")
                                        : Concat("no text can ever satisfy ", NameOf(rule)));
    }
  }
  return absl::OkStatus();
}

}  // namespace quire
