#include "server/grammar/notation/fold_recursion.h"

#include <vector>

namespace quire {

namespace {

class RecursionFolder {
 public:
  RecursionFolder(ExprStore* store, RuleId rule, bool is_at_end)
      : store_(store), rule_(rule), is_at_end_(is_at_end) {}

  // rule: around rule | other, or rule: rule around | other.
  struct Split {
    ExprId around = ExprStore::kNothing;
    ExprId other = ExprStore::kNothing;
  };

  std::optional<Split> SplitOf(ExprId id) {
    if (!Calls(id)) return Split{.other = id};
    switch (store_->kind(id)) {
      case ExprKind::kRule:
        return Split{.around = ExprStore::kEmpty};
      case ExprKind::kOr: {
        const std::vector<ExprId> operands(store_->operands(id).begin(),
                                           store_->operands(id).end());
        std::vector<ExprId> around, other;
        for (const ExprId operand : operands) {
          const std::optional<Split> split = SplitOf(operand);
          if (!split.has_value()) return std::nullopt;
          around.push_back(split->around);
          other.push_back(split->other);
        }
        return Split{.around = store_->Or(around), .other = store_->Or(other)};
      }
      case ExprKind::kRepeat: {
        if (store_->max(id) != 1) return std::nullopt;
        std::optional<Split> split = SplitOf(store_->first(id));
        if (split.has_value()) split->other = store_->Optional(split->other);
        return split;
      }
      case ExprKind::kConcat:
        return is_at_end_ ? SplitLast(id) : SplitFirst(id);
      default:
        return std::nullopt;
    }
  }

 private:
  std::optional<Split> SplitFirst(ExprId id) {
    const ExprId rest = store_->second(id);
    if (Calls(rest)) return std::nullopt;
    std::optional<Split> split = SplitOf(store_->first(id));
    if (!split.has_value()) return split;
    return Split{.around = store_->Concat(split->around, rest),
                 .other = store_->Concat(split->other, rest)};
  }

  std::optional<Split> SplitLast(ExprId id) {
    std::vector<ExprId> before;
    for (; store_->kind(id) == ExprKind::kConcat; id = store_->second(id)) {
      before.push_back(store_->first(id));
      if (Calls(before.back())) return std::nullopt;
    }
    std::optional<Split> split = SplitOf(id);
    for (size_t i = before.size(); i-- > 0 && split.has_value();) {
      split->around = store_->Concat(before[i], split->around);
      split->other = store_->Concat(before[i], split->other);
    }
    return split;
  }

  bool Calls(ExprId id) const {
    for (; store_->has_rules(id); id = store_->second(id)) {
      switch (store_->kind(id)) {
        case ExprKind::kRule:
          return store_->rule(id) == rule_;
        case ExprKind::kOr:
          for (const ExprId operand : store_->operands(id)) {
            if (Calls(operand)) return true;
          }
          return false;
        case ExprKind::kConcat:
          if (Calls(store_->first(id))) return true;
          break;
        default:
          return Calls(store_->first(id));
      }
    }
    return false;
  }

  ExprStore* const store_;
  const RuleId rule_;
  const bool is_at_end_;
};

}  // namespace

std::optional<ExprId> FoldRecursion(ExprStore* store, ExprId expr, RuleId rule) {
  for (const bool is_at_end : {true, false}) {
    const auto split = RecursionFolder(store, rule, is_at_end).SplitOf(expr);
    if (!split.has_value()) continue;
    const ExprId loop = store->Star(split->around);
    return is_at_end ? store->Concat(loop, split->other) : store->Concat(split->other, loop);
  }
  return std::nullopt;
}

}  // namespace quire
