#include "server/grammar/expr/liveness.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "server/grammar/expr/derivative.h"

namespace quire {

namespace {

constexpr size_t kMaxDerivatives = 100'000;

}  // namespace

Liveness::Liveness(Grammar* grammar, std::vector<uint8_t> byte_of_class, int64_t max_search)
    : grammar_(grammar),
      byte_of_class_(std::move(byte_of_class)),
      max_search_(max_search),
      searches_left_(max_search) {
  FindRules();
}

namespace {

// The terms of the rules that call rules, as a graph from each term to the terms that contain it. A
// rule's expression is contained in the calls of the rule. Linear in the size of the grammar,
// whatever the order of its rules.
class TermGraph {
 public:
  explicit TermGraph(const Grammar& grammar) : grammar_(grammar) {
    const ExprStore& store = grammar.store;
    is_used_.resize(store.size());
    for (const ExprId rule : grammar.rules) is_used_[rule] = true;
    // Terms are made after their parts.
    for (ExprId id = static_cast<ExprId>(store.size()); id-- > 0;) {
      if (is_used_[id]) ForEachPart(id, [this](ExprId part) { is_used_[part] = true; });
    }
    begins_.resize(store.size() + 1);
    ForEachEdge([this](ExprId part, ExprId) { ++begins_[part + 1]; });
    std::partial_sum(begins_.begin(), begins_.end(), begins_.begin());
    wholes_.resize(begins_.back());
    std::vector<uint32_t> next(begins_.begin(), begins_.end() - 1);
    ForEachEdge([&](ExprId part, ExprId whole) { wholes_[next[part]++] = whole; });
  }

  // The least set of terms that has every term with `holds_alone`, every alternation or repeat with
  // a part in the set, every concatenation with both, and every call whose rule is in it.
  template <typename HoldsAlone>
  std::vector<bool> LeastSet(const HoldsAlone& holds_alone) const {
    const ExprStore& store = grammar_.store;
    std::vector<bool> set(store.size());
    std::vector<uint8_t> num_missing(store.size());
    std::vector<ExprId> added;
    for (ExprId id = 0; id < set.size(); ++id) {  // a search for strings adds terms behind these
      num_missing[id] = store.kind(id) == ExprKind::kConcat ? 2 : 1;
      if (is_used_[id] && holds_alone(id)) added.push_back(id);
    }
    for (const ExprId id : added) set[id] = true;
    while (!added.empty()) {
      const ExprId part = added.back();
      added.pop_back();
      for (uint32_t i = begins_[part]; i < begins_[part + 1]; ++i) {
        const ExprId whole = wholes_[i];
        if (set[whole] || --num_missing[whole] > 0) continue;
        set[whole] = true;
        added.push_back(whole);
      }
    }
    return set;
  }

 private:
  template <typename Function>
  void ForEachPart(ExprId id, const Function& function) const {
    const ExprStore& store = grammar_.store;
    if (!store.has_rules(id)) return;
    switch (store.kind(id)) {
      case ExprKind::kRule:
        function(grammar_.rules[store.rule(id)]);
        break;
      case ExprKind::kOr:
        for (const ExprId operand : store.operands(id)) function(operand);
        break;
      case ExprKind::kConcat:
        function(store.second(id));
        [[fallthrough]];
      default:
        function(store.first(id));
    }
  }
  template <typename Function>
  void ForEachEdge(const Function& function) const {
    for (ExprId id = 0; id < is_used_.size(); ++id) {
      if (is_used_[id]) ForEachPart(id, [&](ExprId part) { function(part, id); });
    }
  }

  const Grammar& grammar_;
  std::vector<bool> is_used_;     // by term
  std::vector<uint32_t> begins_;  // in wholes_, by term; one more at the end
  std::vector<ExprId> wholes_;
};

}  // namespace

void Liveness::FindRules() {
  const TermGraph graph(*grammar_);
  const std::vector<bool> nullable =
      graph.LeastSet([this](ExprId id) { return grammar_->store.is_nullable(id); });
  for (const ExprId id : grammar_->rules) is_nullable_rule_.push_back(nullable[id]);
  // Without searches, if they are not needed.
  for (const bool may_search : {false, true}) {
    const std::vector<bool> live = graph.LeastSet([this, may_search](ExprId id) {
      const ExprStore& store = grammar_->store;
      if (store.is_nullable(id)) return true;
      if (store.has_rules(id)) return false;
      return !store.may_be_nothing(id) || (may_search && HasString(id));
    });
    is_live_rule_.clear();
    for (const ExprId id : grammar_->rules) is_live_rule_.push_back(live[id]);
    all_rules_live_ =
        std::find(is_live_rule_.begin(), is_live_rule_.end(), false) == is_live_rule_.end();
    if (all_rules_live_) return;
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

std::optional<uint32_t> Liveness::LongestWayToEnd(ExprId id, size_t max_expressions) {
  if (const auto known = ways_.find(id); known != ways_.end()) return known->second;
  return ways_[id] = FindLongestWay(id, max_expressions);
}

std::optional<uint32_t> Liveness::FindLongestWay(ExprId id, size_t max_expressions) {
  ExprStore& store = grammar_->store;
  std::vector<ExprId> all = {id};
  std::vector<std::vector<size_t>> before(1);  // by place in `all`: what leads to it in a byte
  for (size_t at = 0; at < all.size(); ++at) {
    if (all.size() > max_expressions || --searches_left_ < 0) return std::nullopt;
    for (const uint8_t byte : byte_of_class_) {
      const ExprId next = Derivative(&store, all[at], byte);
      if (next == ExprStore::kNothing || !IsLive(next)) continue;
      const size_t place =
          static_cast<size_t>(std::find(all.begin(), all.end(), next) - all.begin());
      if (place == all.size()) {
        all.push_back(next);
        before.emplace_back();
      }
      before[place].push_back(at);
    }
  }
  // Back from the ends, byte by byte.
  std::vector<bool> seen(all.size());
  std::vector<size_t> reached;
  for (size_t i = 0; i < all.size(); ++i) {
    if (store.is_nullable(all[i])) reached.push_back(i), seen[i] = true;
  }
  uint32_t way = 0;
  for (;; ++way) {
    std::vector<size_t> further;
    for (const size_t i : reached) {
      for (const size_t j : before[i]) {
        if (!seen[j]) further.push_back(j), seen[j] = true;
      }
    }
    if (further.empty()) return way;
    reached = std::move(further);
  }
}

}  // namespace quire
