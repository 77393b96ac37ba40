#include "server/grammar/constraint/constraint_compiler.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/grammar/notation/grammar_text.h"
#include "server/grammar/regex/regex_expr.h"
#include "server/grammar/schema/schema_grammar.h"

namespace quire {

namespace {

constexpr size_t kMaxTokenSetBytes = size_t{128} << 20;
// Of automata that nobody uses, and of all that are kept.
constexpr size_t kMaxKeptBytes = size_t{256} << 20;
constexpr size_t kMaxKept = 1'000;

// Begins the bytes of special tokens here. It is in no UTF-8, so no text allows them, unless it
// asks for such a token.
constexpr char kSpecialMark[] = "\xff";

std::vector<std::string> BytesOfTokens(const Tokenizer& tokenizer,
                                       const std::vector<TokenId>& ends) {
  std::vector<std::string> tokens(static_cast<size_t>(tokenizer.vocab_size()));
  for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
    std::string& token = tokens[static_cast<size_t>(id)];
    if (tokenizer.IsSpecial(id)) {
      token = absl::StrCat(kSpecialMark, std::string(tokenizer.IdToToken(id)));
    } else {
      token = tokenizer.TokenBytes(id);
    }
  }
  for (const TokenId id : ends) {
    if (id >= 0 && static_cast<size_t>(id) < tokens.size()) tokens[static_cast<size_t>(id)].clear();
  }
  return tokens;
}

// The schemas that a grammar has inline.
GrammarTextHooks HooksOf(const ConstraintSpec& spec) {
  GrammarTextHooks hooks;
  hooks.json_schema = [&spec](Grammar* grammar, std::string_view text) -> absl::StatusOr<RuleId> {
    size_t num_values_left = kMaxJsonValues;
    ASSIGN_OR_RETURN(const JsonTree schema, ParseJsonTree(text, &num_values_left));
    return AddJsonSchema(grammar, schema, {.has_white_space = !spec.is_compact, .limits = {}});
  };
  return hooks;
}

absl::StatusOr<ExprId> ExprOf(const ConstraintSpec& spec, Grammar* grammar) {
  ExprStore* const store = &grammar->store;
  switch (spec.kind) {
    case ConstraintSpec::Kind::kJsonSchema: {
      ASSIGN_OR_RETURN(
          const RuleId rule,
          AddJsonSchema(grammar, spec.schema, {.has_white_space = !spec.is_compact, .limits = {}}));
      return store->Rule(rule);
    }
    case ConstraintSpec::Kind::kRegex:
      return RegexExpr(store, spec.text,
                       {.spelling = Spelling::kText, .whole = true, .limits = {}});
    case ConstraintSpec::Kind::kGrammar: {
      ASSIGN_OR_RETURN(const RuleId rule, AddGrammarText(grammar, spec.text, HooksOf(spec)));
      return store->Rule(rule);
    }
    case ConstraintSpec::Kind::kChoice: {
      ASSIGN_OR_RETURN(const RuleId rule, AddChoices(grammar, spec.choices));
      return store->Rule(rule);
    }
  }
  return absl::InternalError("a constraint of no kind");
}

// A tag around reasoning, which is a text or a special token.
ExprId TagOf(const std::string& tag, ExprStore* store) {
  return store->Or(store->Literal(tag), store->Literal(absl::StrCat(kSpecialMark, tag)));
}

// Texts without `close`, then `close`, then white space.
ExprId ReasoningOf(const ConstraintSpec& spec, ExprStore* store) {
  const ExprId any = AnyText(store, Spelling::kText);
  const ExprId close = TagOf(spec.reasoning_close, store);
  const ExprId closed = store->Concat({any, store->Literal(spec.reasoning_close), any});
  const ExprId without = store->And(any, store->Not(closed));
  const ExprId space = store->Repeat(store->Byte('\n'), 0, 2);
  const ExprId reasoning = store->Concat({without, close, space});
  if (spec.reasoning_open.empty()) return reasoning;
  return store->Optional(store->Concat(TagOf(spec.reasoning_open, store), reasoning));
}

}  // namespace

std::shared_ptr<const ConstraintVocabulary> MakeConstraintVocabulary(
    const Tokenizer& tokenizer, const std::vector<TokenId>& ends) {
  auto vocabulary = std::make_shared<const ConstraintVocabulary>(BytesOfTokens(tokenizer, ends),
                                                                 ends, kMaxTokenSetBytes);
  auto grammar = std::make_unique<Grammar>();
  const RuleId root = grammar->AddRule();
  const absl::StatusOr<RuleId> any = AddJsonSchema(grammar.get(), BoolTree(true), {});
  if (!any.ok()) return vocabulary;
  grammar->rules[root] = grammar->store.Rule(*any);
  const Automaton automaton(std::move(grammar), AutomatonLimits());
  for (const State state : automaton.landmarks()) {
    (void)vocabulary->token_sets.Get(automaton, state, vocabulary->trie);
  }
  return vocabulary;
}

absl::StatusOr<std::shared_ptr<const Automaton>> CompileConstraint(const ConstraintSpec& spec) {
  auto grammar = std::make_unique<Grammar>();
  const RuleId root = grammar->AddRule();
  ASSIGN_OR_RETURN(ExprId expr, ExprOf(spec, grammar.get()));
  if (!spec.reasoning_close.empty()) {
    // A rule of its own: what may come within it has token sets, for nothing is called behind it.
    const RuleId reasoning = grammar->AddRule(ReasoningOf(spec, &grammar->store));
    expr = grammar->store.Concat(grammar->store.Rule(reasoning), expr);
  }
  grammar->rules[root] = expr;
  if (grammar->store.overflowed())
    return absl::ResourceExhaustedError("the constraint is too large");
  auto automaton = std::make_shared<const Automaton>(std::move(grammar), AutomatonLimits());
  RETURN_IF_ERROR(automaton->status());
  if (automaton->StartOf(root).is_dead()) {
    return absl::InvalidArgumentError("no answer can be valid: its parts contradict each other");
  }
  return automaton;
}

ConstraintCompiler::ConstraintCompiler(std::shared_ptr<const Tokenizer> tokenizer,
                                       std::vector<TokenId> end_tokens)
    : vocabulary_(std::async(std::launch::async,
                             [tokenizer = std::move(tokenizer), ends = std::move(end_tokens)] {
                               return MakeConstraintVocabulary(*tokenizer, ends);
                             })) {}

std::shared_ptr<const TokenConstraintSource> ConstraintCompiler::Find(const ConstraintSpec& spec) {
  return FindKey(KeyOf(spec));
}

std::shared_ptr<const TokenConstraintSource> ConstraintCompiler::FindKey(const std::string& key) {
  absl::MutexLock lock(&mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end() || !found->second->source->ok()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->source;
}

absl::StatusOr<std::shared_ptr<const TokenConstraintSource>> ConstraintCompiler::Compile(
    const ConstraintSpec& spec) {
  std::string key = KeyOf(spec);
  if (std::shared_ptr<const TokenConstraintSource> known = FindKey(key); known != nullptr)
    return known;
  ASSIGN_OR_RETURN(std::shared_ptr<const Automaton> automaton, CompileConstraint(spec));
  auto source =
      std::make_shared<const GrammarConstraintSource>(vocabulary_.get(), std::move(automaton));
  Keep(std::move(key), source);
  return source;
}

void ConstraintCompiler::Keep(std::string key,
                              std::shared_ptr<const GrammarConstraintSource> source) {
  absl::MutexLock lock(&mutex_);
  if (const auto known = by_key_.find(key); known != by_key_.end()) {
    entries_.erase(known->second);
    by_key_.erase(known);
  }
  entries_.push_front({std::move(key), std::move(source)});
  by_key_[entries_.front().key] = entries_.begin();
  size_t num_bytes = 0, num_kept = 0;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    num_bytes += entry->source->num_bytes() + entry->key.size();
    ++num_kept;
    if (num_kept == 1 || (num_bytes <= kMaxKeptBytes && num_kept <= kMaxKept)) {
      ++entry;
      continue;
    }
    by_key_.erase(entry->key);
    entry = entries_.erase(entry);
  }
}

std::string KeyOf(const ConstraintSpec& spec) {
  std::string key = absl::StrCat(static_cast<int>(spec.kind), spec.is_compact ? "c" : "w",
                                 spec.reasoning_open.size(), ",", spec.reasoning_open,
                                 spec.reasoning_close.size(), ",", spec.reasoning_close);
  if (spec.kind == ConstraintSpec::Kind::kJsonSchema) absl::StrAppend(&key, ToJson(spec.schema));
  absl::StrAppend(&key, spec.text);
  for (const std::string& choice : spec.choices) absl::StrAppend(&key, choice.size(), ",", choice);
  return key;
}

}  // namespace quire
