#include "server/grammar/expr/liveness.h"

#include <algorithm>
#include <utility>

#include "server/grammar/expr/derivative.h"

namespace quire {

namespace {

constexpr size_t kMaxDerivatives = 100'000;

}  // namespace

Liveness::Liveness(Grammar* grammar, std::vector<uint8_t> byte_of_class, int64_t max_search)
    : grammar_(grammar), byte_of_class_(std::move(byte_of_class)), searches_left_(max_search) {
  FindRules();
}

// The least fixed points: a rule is live, or has the empty string, if its expression does with the
// rules known so far.
void Liveness::FindRules() {
  const size_t num_rules = grammar_->rules.size();
  is_live_rule_.assign(num_rules, false);
  is_nullable_rule_.assign(num_rules, false);
  for (bool changed = true; changed;) {
    changed = false;
    // Rules are mostly made before those that they call.
    for (size_t i = num_rules; i-- > 0;) {
      const ExprId id = grammar_->rules[i];
      if (!is_live_rule_[i] && HasString(id)) is_live_rule_[i] = changed = true;
      if (!is_nullable_rule_[i] && CanBeEmpty(id)) is_nullable_rule_[i] = changed = true;
    }
  }
  all_rules_live_ =
      std::find(is_live_rule_.begin(), is_live_rule_.end(), false) == is_live_rule_.end();
}

bool Liveness::CanBeEmpty(ExprId id) const {
  const ExprStore& store = grammar_->store;
  for (;; id = store.second(id)) {
    if (store.is_nullable(id)) return true;
    if (!store.has_rules(id)) return false;
    switch (store.kind(id)) {
      case ExprKind::kRule:
        return is_nullable_rule_[store.rule(id)];
      case ExprKind::kOr:
        return std::any_of(store.operands(id).begin(), store.operands(id).end(),
                           [this](ExprId operand) { return CanBeEmpty(operand); });
      case ExprKind::kRepeat:
        return CanBeEmpty(store.first(id));
      case ExprKind::kConcat:
        if (!CanBeEmpty(store.first(id))) return false;
        break;
      default:
        return false;
    }
  }
}

bool Liveness::IsLive(ExprId id) { return HasString(id); }

bool Liveness::HasString(ExprId id) {
  const ExprStore& store = grammar_->store;
  for (;; id = store.second(id)) {
    if (id == ExprStore::kNothing) return false;
    if (store.is_nullable(id) || (!store.may_be_nothing(id) && !store.has_rules(id))) return true;
    switch (store.kind(id)) {
      case ExprKind::kRule:
        return is_live_rule_[store.rule(id)];
      case ExprKind::kOr:
        return HasStringOfAny(id);
      case ExprKind::kRepeat:
        return HasString(store.first(id));
      case ExprKind::kAnd:
      case ExprKind::kNot:
        return Search(id);
      case ExprKind::kConcat:
        if (!HasString(store.first(id))) return false;
        break;
      default:
        return true;
    }
  }
}

// The answer is kept, unless rules could change it: alternatives that share their ends would
// otherwise be looked through again for each way to get there.
bool Liveness::HasStringOfAny(ExprId id) {
  const ExprStore& store = grammar_->store;
  const bool is_kept = !store.has_rules(id);
  if (is_kept && known(id) != Known::kNo) return known(id) == Known::kLive;
  const std::vector<ExprId> operands(store.operands(id).begin(), store.operands(id).end());
  const bool is_live = std::any_of(operands.begin(), operands.end(),
                                   [this](ExprId operand) { return HasString(operand); });
  if (is_kept && (is_live || !gave_up_)) known(id) = is_live ? Known::kLive : Known::kDead;
  return is_live;
}

Liveness::Known& Liveness::known(ExprId id) {
  if (id >= known_.size())
    known_.resize(std::max<size_t>(grammar_->store.size(), id + 1), Known::kNo);
  return known_[id];
}

ExprId Liveness::DerivativeOf(ExprId id, uint8_t byte) {
  ExprStore& store = grammar_->store;
  if (store.kind(id) != ExprKind::kAnd) return Derivative(&store, id, byte);
  std::vector<ExprId> operands(store.operands(id).begin(), store.operands(id).end());
  for (ExprId& operand : operands) {
    const uint64_t key = (uint64_t{operand} << 8) | byte;
    if (const auto known = derivatives_.find(key); known != derivatives_.end()) {
      operand = known->second;
      continue;
    }
    operand = Derivative(&store, operand, byte);
    if (derivatives_.size() < kMaxDerivatives) derivatives_[key] = operand;
  }
  return store.And(operands);
}

// Breadth first, through the derivatives, to the nearest expression with the empty string.
bool Liveness::Search(ExprId id) {
  if (known(id) != Known::kNo) return known(id) == Known::kLive;
  ExprStore& store = grammar_->store;
  struct Visit {
    ExprId id;
    size_t parent;
  };
  std::vector<Visit> visits = {{id, 0}};
  std::vector<bool> seen(store.size());
  seen[id] = true;
  derivatives_.clear();
  const auto conclude = [&](size_t last) {
    for (size_t at = last;; at = visits[at].parent) {
      known(visits[at].id) = Known::kLive;
      if (at == 0) return true;
    }
  };
  for (size_t at = 0; at < visits.size(); ++at) {
    if (--searches_left_ < 0 || store.overflowed()) {
      gave_up_ = true;
      return false;
    }
    for (const uint8_t byte : byte_of_class_) {
      const ExprId next = DerivativeOf(visits[at].id, byte);
      if (next == ExprStore::kNothing) continue;
      if (next >= seen.size()) seen.resize(store.size() + 1);
      if (seen[next] || known(next) == Known::kDead) continue;
      seen[next] = true;
      visits.push_back({next, at});
      if (store.is_nullable(next) || !store.may_be_nothing(next) || known(next) == Known::kLive) {
        return conclude(visits.size() - 1);
      }
    }
  }
  for (const Visit& visit : visits) known(visit.id) = Known::kDead;
  return false;
}

}  // namespace quire
