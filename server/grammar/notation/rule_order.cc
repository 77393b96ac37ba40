#include "server/grammar/notation/rule_order.h"

#include <algorithm>

namespace quire {

namespace {

// Tarjan, "Depth-first search and linear graph algorithms" (1972), with a stack of its own instead
// of recursion.
class KnotFinder {
 public:
  explicit KnotFinder(const GrammarSyntax& syntax)
      : syntax_(syntax), visits_(syntax.rules.size()) {}

  void Visit(uint32_t root) {
    if (visits_[root].order != 0) return;
    Enter(root);
    while (!path_.empty()) {
      const uint32_t rule = path_.back();
      Visited& visit = visits_[rule];
      if (visit.next_node <= syntax_.rules[rule].root) {
        const SyntaxNode& node = syntax_.nodes[visit.next_node++];
        if (node.kind == SyntaxNode::Kind::kName) Follow(rule, syntax_.names[node.value].rule);
        continue;
      }
      path_.pop_back();
      if (!path_.empty()) Lower(path_.back(), visit.lowest);
      if (visit.lowest == visit.order) TakeKnot(rule);
    }
  }

  std::vector<RuleKnot> TakeKnots() { return std::move(knots_); }

 private:
  struct Visited {
    uint32_t order = 0;      // of the first visit, from 1
    uint32_t lowest = 0;     // order that is reached from here within the open rules
    SyntaxId next_node = 0;  // of the rule, to look at
    bool is_open = false;
    bool calls_itself = false;
  };

  void Enter(uint32_t rule) {
    ++num_visits_;
    visits_[rule] = {.order = num_visits_,
                     .lowest = num_visits_,
                     .next_node = syntax_.rules[rule].first_node,
                     .is_open = true};
    path_.push_back(rule);
    open_.push_back(rule);
  }
  void Lower(uint32_t rule, uint32_t order) {
    visits_[rule].lowest = std::min(visits_[rule].lowest, order);
  }
  void Follow(uint32_t rule, uint32_t called) {
    if (called == rule) visits_[rule].calls_itself = true;
    if (visits_[called].order == 0) {
      Enter(called);
    } else if (visits_[called].is_open) {
      Lower(rule, visits_[called].order);
    }
  }
  void TakeKnot(uint32_t first) {
    RuleKnot knot;
    do {
      knot.rules.push_back(open_.back());
      visits_[open_.back()].is_open = false;
      open_.pop_back();
    } while (knot.rules.back() != first);
    knot.is_recursive = knot.rules.size() > 1 || visits_[first].calls_itself;
    knots_.push_back(std::move(knot));
  }

  const GrammarSyntax& syntax_;
  std::vector<Visited> visits_;
  std::vector<uint32_t> path_, open_;
  std::vector<RuleKnot> knots_;
  uint32_t num_visits_ = 0;
};

}  // namespace

std::vector<RuleKnot> OrderRules(const GrammarSyntax& syntax, absl::Span<const uint32_t> roots) {
  KnotFinder finder(syntax);
  for (const uint32_t root : roots) finder.Visit(root);
  return finder.TakeKnots();
}

}  // namespace quire
