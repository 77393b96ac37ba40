#include "server/grammar/expr/derivative.h"

#include <algorithm>

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
  return store->Repeat(store->first(repeat), min == 0 ? 0 : min - 1,
                       max == kUnbounded ? max : max - 1);
}

// Of each operand, as a list of the same kind.
std::vector<ExprId> OfOperands(ExprStore* store, ExprId id, uint8_t byte) {
  // A copy: the store's lists move when it grows.
  std::vector<ExprId> operands(store->operands(id).begin(), store->operands(id).end());
  for (ExprId& operand : operands) operand = Derivative(store, operand, byte);
  return operands;
}

// A concatenation's parts are walked through in a loop: there may be thousands that can be left
// out.
ExprId OfConcat(ExprStore* store, ExprId id, uint8_t byte) {
  std::vector<ExprId> alternatives;
  while (store->kind(id) == ExprKind::kConcat && !store->overflowed()) {
    const ExprId first = store->first(id), second = store->second(id);
    alternatives.push_back(store->Concat(Derivative(store, first, byte), second));
    if (!store->is_nullable(first)) return store->Or(alternatives);
    id = second;
  }
  alternatives.push_back(Derivative(store, id, byte));
  return store->Or(alternatives);
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

}  // namespace

ExprId Derivative(ExprStore* store, ExprId id, uint8_t byte) {
  switch (store->kind(id)) {
    case ExprKind::kNothing:
    case ExprKind::kEmpty:
    case ExprKind::kRule:
      return ExprStore::kNothing;
    case ExprKind::kBytes:
      return store->bytes(id).Has(byte) ? ExprStore::kEmpty : ExprStore::kNothing;
    case ExprKind::kLiteral:
      if (static_cast<uint8_t>(store->literal(id)[0]) != byte) return ExprStore::kNothing;
      return store->WithoutFirstByte(id);
    case ExprKind::kConcat:
      return OfConcat(store, id, byte);
    case ExprKind::kOr:
      return store->Or(OfOperands(store, id, byte));
    case ExprKind::kAnd:
      return store->And(OfOperands(store, id, byte));
    case ExprKind::kNot:
      return store->Not(Derivative(store, store->first(id), byte));
    case ExprKind::kRepeat: {
      const ExprId first = Derivative(store, store->first(id), byte);
      return first == ExprStore::kNothing ? first : store->Concat(first, OneFewer(store, id));
    }
    case ExprKind::kRemainder:
      return OfRemainder(store, id, byte);
  }
  return ExprStore::kNothing;
}

Beginning BeginningOf(const ExprStore& store, ExprId id) {
  Beginning all;
  const auto add = [&all, &store](ExprId part) {
    const Beginning one = BeginningOf(store, part);
    all.has_byte = all.has_byte || one.has_byte;
    all.has_call = all.has_call || one.has_call;
  };
  // The parts of a concatenation that can be left out, in a loop: there may be thousands.
  for (; store.kind(id) == ExprKind::kConcat; id = store.second(id)) {
    add(store.first(id));
    if (!store.is_nullable(store.first(id))) return all;
  }
  switch (store.kind(id)) {
    case ExprKind::kOr:
      for (const ExprId operand : store.operands(id)) add(operand);
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

}  // namespace quire
