#include "server/grammar/expr/derivative.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace quire {

namespace {

ExprId OfRemainder(ExprStore* store, ExprId id, uint8_t byte) {
  Remainder remainder = store->remainder(id);
  if (byte == '.') {
    if (remainder.after_point || remainder.needs_digit || remainder.num_decimals == 0)
      return ExprStore::kNothing;
    remainder.after_point = remainder.needs_digit = true;
    return store->RemainderOf(remainder);
  }
  if (byte < '0' || byte > '9') return ExprStore::kNothing;
  if (remainder.after_point) {
    if (remainder.num_decimals == 0) return ExprStore::kNothing;
    --remainder.num_decimals;
  }
  __extension__ using Wide = unsigned __int128;
  remainder.remainder =
      static_cast<uint64_t>((Wide{remainder.remainder} * 10 + (byte - '0')) % remainder.divisor);
  remainder.needs_digit = false;
  return store->RemainderOf(remainder);
}

// What is left of a repeat after one of its strings.
ExprId OneFewer(ExprStore* store, ExprId repeat) {
  const uint32_t min = store->min(repeat), max = store->max(repeat);
  return store->Repeat(store->first(repeat), min == 0 || min == kManyTimes ? min : min - 1,
                       max == kUnbounded ? max : max - 1);
}

// One derivative of an expression. Its parts may share their ends, as a | b, each followed by the
// same c | d, and so on: then there are exponentially many ways through it. So after the first
// visits the derivatives of parts are remembered.
class Differentiator {
 public:
  Differentiator(ExprStore* store, uint8_t byte) : store_(store), byte_(byte) {}

  ExprId Of(ExprId id);

 private:
  static constexpr size_t kNumPlainVisits = 256;

  std::vector<ExprId> OfOperands(ExprId id);
  ExprId OfConcat(ExprId id);
  ExprId OfTerm(ExprId id);
  const ExprId* FindKnown(ExprId id) const;

  ExprStore* const store_;
  const uint8_t byte_;
  size_t num_visits_ = 0;
  absl::flat_hash_map<ExprId, ExprId> known_;
};

const ExprId* Differentiator::FindKnown(ExprId id) const {
  const auto known = known_.find(id);
  return known != known_.end() ? &known->second : nullptr;
}

ExprId Differentiator::Of(ExprId id) {
  store_->CountWork(1);
  if (store_->overflowed()) return ExprStore::kNothing;
  if (++num_visits_ <= kNumPlainVisits) return OfTerm(id);
  if (const ExprId* const known = FindKnown(id)) return *known;
  const ExprId result = OfTerm(id);
  known_.emplace(id, result);
  return result;
}

// The derivatives of the operands.
std::vector<ExprId> Differentiator::OfOperands(ExprId id) {
  // A copy: the store's lists move when it grows.
  std::vector<ExprId> operands(store_->operands(id).begin(), store_->operands(id).end());
  for (ExprId& operand : operands) operand = Of(operand);
  return operands;
}

// A concatenation's parts are walked through in a loop: there may be thousands that can be left
// out.
ExprId Differentiator::OfConcat(ExprId id) {
  std::vector<ExprId> alternatives;
  while (store_->kind(id) == ExprKind::kConcat) {
    if (store_->overflowed()) return ExprStore::kNothing;
    const ExprId first = store_->first(id), second = store_->second(id);
    alternatives.push_back(store_->Concat(Of(first), second));
    if (!store_->is_nullable(first)) return store_->Or(alternatives);
    id = second;
    if (known_.empty()) continue;
    if (const ExprId* const known = FindKnown(id)) {
      alternatives.push_back(*known);
      return store_->Or(alternatives);
    }
  }
  alternatives.push_back(Of(id));
  return store_->Or(alternatives);
}

void AddCalls(ExprStore* store, ExprId id, ExprId rest, std::vector<RuleCall>* calls) {
  for (; store->has_rules(id); id = store->second(id)) {
    const auto after = [&](ExprId more) { return store->Concat(more, rest); };
    switch (store->kind(id)) {
      case ExprKind::kRule:
        calls->push_back({store->rule(id), rest});
        return;
      case ExprKind::kOr: {
        const std::vector<ExprId> operands(store->operands(id).begin(), store->operands(id).end());
        for (const ExprId operand : operands) AddCalls(store, operand, rest, calls);
        return;
      }
      case ExprKind::kRepeat:
        AddCalls(store, store->first(id), after(OneFewer(store, id)), calls);
        return;
      case ExprKind::kConcat:
        AddCalls(store, store->first(id), after(store->second(id)), calls);
        if (!store->is_nullable(store->first(id))) return;
        break;
      default:
        return;
    }
  }
}

ExprId Differentiator::OfTerm(ExprId id) {
  switch (store_->kind(id)) {
    case ExprKind::kNothing:
    case ExprKind::kEmpty:
    case ExprKind::kRule:
      return ExprStore::kNothing;
    case ExprKind::kBytes:
      return store_->bytes(id).Has(byte_) ? ExprStore::kEmpty : ExprStore::kNothing;
    case ExprKind::kLiteral:
      if (static_cast<uint8_t>(store_->literal(id)[0]) != byte_) return ExprStore::kNothing;
      return store_->WithoutFirstByte(id);
    case ExprKind::kConcat:
      return OfConcat(id);
    case ExprKind::kOr:
      return store_->Or(OfOperands(id));
    case ExprKind::kAnd:
      return store_->And(OfOperands(id));
    case ExprKind::kNot:
      return store_->Not(Of(store_->first(id)));
    case ExprKind::kRepeat: {
      const ExprId first = Of(store_->first(id));
      return first == ExprStore::kNothing ? first : store_->Concat(first, OneFewer(store_, id));
    }
    case ExprKind::kRemainder:
      return OfRemainder(store_, id, byte_);
  }
  return ExprStore::kNothing;
}

}  // namespace

ExprId Derivative(ExprStore* store, ExprId id, uint8_t byte) {
  return Differentiator(store, byte).Of(id);
}

Beginning BeginningOf(const ExprStore& store, ExprId id) {
  Beginning all;
  const auto add = [&all, &store](ExprId part) {
    const Beginning one = BeginningOf(store, part);
    all.has_byte = all.has_byte || one.has_byte;
    all.has_call = all.has_call || one.has_call;
  };
  const auto is_known = [&all, &store](ExprId rest) {
    return all.has_byte && (all.has_call || !store.has_rules(rest));
  };
  // The parts of a concatenation that can be left out, in a loop: there may be thousands.
  for (; store.kind(id) == ExprKind::kConcat; id = store.second(id)) {
    add(store.first(id));
    if (!store.is_nullable(store.first(id)) || is_known(store.second(id))) return all;
  }
  switch (store.kind(id)) {
    case ExprKind::kOr:
      for (const ExprId operand : store.operands(id)) {
        if (is_known(id)) break;
        add(operand);
      }
      break;
    case ExprKind::kRepeat:
      add(store.first(id));
      break;
    case ExprKind::kRule:
      all.has_call = true;
      break;
    case ExprKind::kNothing:
    case ExprKind::kEmpty:
    case ExprKind::kConcat:
      break;
    case ExprKind::kRemainder:
      all.has_byte =
          all.has_byte || !store.remainder(id).after_point || store.remainder(id).num_decimals > 0;
      break;
    case ExprKind::kBytes:
    case ExprKind::kLiteral:
    case ExprKind::kAnd:
    case ExprKind::kNot:
      all.has_byte = true;
      break;
  }
  return all;
}

std::vector<RuleCall> CallsOf(ExprStore* store, ExprId id) {
  std::vector<RuleCall> calls;
  AddCalls(store, id, ExprStore::kEmpty, &calls);
  std::sort(calls.begin(), calls.end(), [](const RuleCall& a, const RuleCall& b) {
    return a.rule != b.rule ? a.rule < b.rule : a.rest < b.rest;
  });
  calls.erase(std::unique(calls.begin(), calls.end()), calls.end());
  return calls;
}

namespace {

// Smaller counts are left as they are: they end within a token.
constexpr uint32_t kMinRelaxed = 4;

ExprId RelaxTerm(ExprStore* store, ExprId id, uint32_t* slack) {
  switch (store->kind(id)) {
    case ExprKind::kConcat: {
      std::vector<ExprId> parts;  // in a loop: there may be thousands
      for (; store->kind(id) == ExprKind::kConcat; id = store->second(id))
        parts.push_back(RelaxTerm(store, store->first(id), slack));
      ExprId relaxed = RelaxTerm(store, id, slack);
      for (size_t i = parts.size(); i-- > 0;) relaxed = store->Concat(parts[i], relaxed);
      return relaxed;
    }
    case ExprKind::kOr: {
      std::vector<ExprId> operands(store->operands(id).begin(), store->operands(id).end());
      for (ExprId& operand : operands) operand = RelaxTerm(store, operand, slack);
      return store->Or(operands);
    }
    case ExprKind::kRepeat: {
      uint32_t min = store->min(id), max = store->max(id);
      if (min >= kMinRelaxed && min < kManyTimes) {
        *slack = std::min(*slack, min);
        min = kManyTimes;
        max = kUnbounded;
      } else if (max >= kMinRelaxed && max != kUnbounded) {
        *slack = std::min(*slack, max);
        max = kUnbounded;
      }
      return store->Repeat(store->first(id), min, max);
    }
    default:
      return id;
  }
}

}  // namespace

Relaxed Relax(ExprStore* store, ExprId id) {
  Relaxed relaxed = {id, kUnbounded};
  if (!store->has_rules(id)) relaxed.expr = RelaxTerm(store, id, &relaxed.slack);
  return relaxed;
}

}  // namespace quire
