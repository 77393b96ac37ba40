// Whether an expression has any string at all, so that nobody is led into a dead end. Terms with
// intersections and complements must be searched for a string; what is found is kept.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "server/grammar/expr/grammar.h"

namespace quire {

class Liveness {
 public:
  // Both outlive this. `byte_of_class`: a byte of each class that the grammar tells apart.
  // Until the next Refuel, all searches together look at no more than `max_search` expressions.
  Liveness(Grammar* grammar, std::vector<uint8_t> byte_of_class, int64_t max_search);

  void Refuel() { searches_left_ = max_search_; }

  // Whether some string is in `id`, rules included. Once there are too many, expressions count
  // as dead, and gave_up() is true from then on.
  bool IsLive(ExprId id);
  // Whether a rule has the empty string.
  bool IsNullableRule(RuleId rule) const { return is_nullable_rule_[rule]; }
  // How many bytes an end is away, at most, from any beginning of a string of `id`. None if more
  // than `max_expressions` expressions follow from it, or if searches are used up. The answer is
  // kept.
  std::optional<uint32_t> LongestWayToEnd(ExprId id, size_t max_expressions);
  // Whether every rule has a string: if not, each expression must be asked about.
  bool all_rules_live() const { return all_rules_live_; }
  bool gave_up() const { return gave_up_; }

 private:
  enum class Known : uint8_t { kNo, kLive, kDead };

  void FindRules();
  bool HasString(ExprId id);
  bool HasStringOfAny(ExprId id);
  bool Search(ExprId id);
  std::optional<uint32_t> FindLongestWay(ExprId id, size_t max_expressions);
  ExprId DerivativeOf(ExprId id, uint8_t byte);
  Known& known(ExprId id);

  Grammar* const grammar_;
  const std::vector<uint8_t> byte_of_class_;
  const int64_t max_search_;
  int64_t searches_left_;
  absl::flat_hash_map<ExprId, std::optional<uint32_t>> ways_;  // LongestWayToEnd
  // By operand of an intersection and byte, during a search: products have few different operands.
  absl::flat_hash_map<uint64_t, ExprId> derivatives_;
  std::vector<Known> known_;  // by id; of terms without rules
  std::vector<bool> is_live_rule_;
  std::vector<bool> is_nullable_rule_;
  bool all_rules_live_ = true;
  bool gave_up_ = false;
};

}  // namespace quire
