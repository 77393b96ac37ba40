// An Earley parser over the states of an Automaton: where a text stands in a grammar, and what may
// follow, byte by byte. An item is a state of a rule's expression in a call of the rule. A call
// knows who waits for its end. Items and calls are only ever added behind the others, so that going
// back means to forget the last ones.
// Sources: Earley, "An efficient context-free parsing algorithm" (1970); Aycock and Horspool,
// "Practical Earley parsing" (2002), for rules that have the empty string. A call at the very end
// of a rule is no call of its own, so right recursion does not pile up (Leo's case, in part). One
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "server/grammar/expr/automaton.h"
#include "server/grammar/match/stamped_table.h"

namespace quire {

class Parser {
 public:
  struct Item {
    State state;
    uint32_t call;

    friend bool operator==(const Item&, const Item&) = default;
  };
  // The items that may come next, and how much there is of everything, to go back to.
  struct Position {
    uint32_t items_begin = 0, items_end = 0;
    uint32_t num_calls = 0, num_waiters = 0;
    bool is_complete = false;  // the text so far is in the grammar

    bool is_dead() const { return items_begin == items_end && !is_complete; }
  };

  // Begins before the first byte. The automaton outlives this.
  explicit Parser(const Automaton* automaton);

  const Position& start() const { return start_; }
  absl::Span<const Item> items(const Position& position) const {
    return absl::MakeConstSpan(items_).subspan(position.items_begin,
                                               position.items_end - position.items_begin);
  }
  // The position after one more byte; what was added behind `from` is forgotten first.
  Position Next(const Position& from, uint8_t byte);
  // After only one item, whose next state is known.
  Position Enter(const Position& from, Item item);
  // After the end of a call, as if only its end had been reached.
  Position EndOf(const Position& from, uint32_t call);
  // The same items, as far as `keep` says; not complete.
  Position Only(const Position& from, absl::Span<const Item> items);

  // Items that one position may have, waiters that it may add, bytes of all positions, and items
  // and waiters that may be looked at after a Refuel, which takes some tenths of a second. Beyond
  // them gave_up() is true and nothing follows.
  static constexpr size_t kMaxItems = 2'000;
  static constexpr size_t kMaxWaiters = 20'000;
  static constexpr size_t kMaxBytes = size_t{64} << 20;
  static constexpr int64_t kMaxSteps = 50'000'000;
  bool gave_up() const { return gave_up_ || !automaton_->ok(); }
  void Refuel() { steps_left_ = kMaxSteps; }
  size_t num_bytes() const;

 private:
  struct Call {
    uint32_t waiters_begin, num_waiters;
  };

  void Forget(const Position& from);
  bool IsKnown(const Item& item);
  Position Close();
  void Add(State state, uint32_t call);
  void End(uint32_t call);
  void Predict(const Item& item);
  uint32_t CallOf(RuleId rule, State rest, uint32_t waiter);
  uint32_t KnownCallOf(RuleId rule);

  const Automaton* const automaton_;
  std::vector<Item> items_;
  std::vector<Call> calls_;    // the first is the whole grammar's, which nobody waits for
  std::vector<Item> waiters_;  // by call: the state after it, and the call that this belongs to
  Position start_;
  bool gave_up_ = false;
  int64_t steps_left_ = kMaxSteps;

  // Parts of the position that is being made.
  size_t set_begin_ = 0;
  size_t first_new_call_ = 0;
  bool is_complete_ = false;
  std::vector<std::pair<RuleId, uint32_t>> new_calls_;
  // Items and new calls, if there are too many of them to look through.
  StampedTable item_table_, call_table_;
  std::vector<std::pair<uint32_t, Item>> new_waiters_;  // {call, waiter}
};

}  // namespace quire
