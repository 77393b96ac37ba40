#include "server/grammar/notation/expr_shape.h"

#include <algorithm>

namespace quire {

namespace {

constexpr int kWideLoopBytes = 24;     // of the printable ones; token sets are for as many
constexpr uint32_t kMinLoopCount = 8;  // fewer repeats are no loop
constexpr uint64_t kMaxSmallStates = 200;

}  // namespace

ByteSet ExprShapes::FirstBytes(ExprId id) const {
  ByteSet all;
  for (; store_->kind(id) == ExprKind::kConcat; id = store_->second(id)) {
    all = all | FirstBytes(store_->first(id));
    if (!store_->is_nullable(store_->first(id))) return all;
  }
  switch (store_->kind(id)) {
    case ExprKind::kBytes:
      return all | store_->bytes(id);
    case ExprKind::kLiteral:
      return all | ByteSet{static_cast<uint8_t>(store_->literal(id)[0])};
    case ExprKind::kOr:
      for (const ExprId operand : store_->operands(id)) all = all | FirstBytes(operand);
      return all;
    case ExprKind::kRepeat:
      return all | FirstBytes(store_->first(id));
    case ExprKind::kAnd:
    case ExprKind::kNot:
      return ByteSet::Range(0, 255);
    default:
      return all;
  }
}

bool ExprShapes::HasWideLoop(ExprId id) {
  if (store_->has_rules(id)) return false;
  const auto known = has_wide_loop_.find(id);
  if (known != has_wide_loop_.end()) return known->second;
  bool has = false;
  ExprId part = id;
  for (; store_->kind(part) == ExprKind::kConcat && !has; part = store_->second(part))
    has = HasWideLoop(store_->first(part));
  switch (store_->kind(part)) {
    case ExprKind::kNot:
      has = true;
      break;
    case ExprKind::kOr:
    case ExprKind::kAnd:
      for (const ExprId operand : store_->operands(part)) has = has || HasWideLoop(operand);
      break;
    case ExprKind::kRepeat: {
      const ByteSet printable = FirstBytes(store_->first(part)) & ByteSet::Range(' ', '~');
      has = has || (store_->max(part) >= kMinLoopCount && printable.size() >= kWideLoopBytes) ||
            HasWideLoop(store_->first(part));
      break;
    }
    default:
      break;
  }
  return has_wide_loop_[id] = has;
}

// Adds `times` times the states of `id`. False, and incomplete, if there are too many.
bool ExprShapes::TakeStates(ExprId id, uint64_t times, uint64_t* num_states) const {
  const auto take = [&](uint64_t num) {
    *num_states += std::min(num, kMaxSmallStates + 1) * times;
    return *num_states <= kMaxSmallStates;
  };
  for (; store_->kind(id) == ExprKind::kConcat; id = store_->second(id)) {
    if (!TakeStates(store_->first(id), times, num_states)) return false;
  }
  switch (store_->kind(id)) {
    case ExprKind::kLiteral:
      return take(store_->literal(id).size());
    case ExprKind::kOr:
      return std::all_of(store_->operands(id).begin(), store_->operands(id).end(),
                         [&](ExprId operand) { return TakeStates(operand, times, num_states); });
    case ExprKind::kRepeat: {
      const uint32_t max = store_->max(id);
      const uint64_t count = std::max<uint64_t>(1, max == kUnbounded ? store_->min(id) : max);
      return TakeStates(store_->first(id), std::min(times * count, kMaxSmallStates + 1),
                        num_states);
    }
    case ExprKind::kAnd:
    case ExprKind::kNot:
    case ExprKind::kRemainder:
      return false;
    default:
      return take(1);
  }
}

bool ExprShapes::IsSmall(ExprId id) const {
  uint64_t num_states = 0;
  return TakeStates(id, 1, &num_states);
}

}  // namespace quire
