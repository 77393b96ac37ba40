#include "server/grammar/match/parser.h"

#include <algorithm>

namespace quire {

namespace {

// Items and calls that are looked through one by one.
constexpr size_t kFew = 8;

}  // namespace

Parser::Parser(const Automaton* automaton) : automaton_(automaton) {
  calls_.push_back({0, 0});
  Position empty;
  empty.num_calls = 1;
  Forget(empty);
  Add(automaton_->StartOf(0), 0);
  if (automaton_->IsNullableRule(0)) is_complete_ = true;
  start_ = Close();
}

size_t Parser::num_bytes() const {
  return items_.capacity() * sizeof(Item) + waiters_.capacity() * sizeof(Item) +
         calls_.capacity() * sizeof(Call);
}

void Parser::Forget(const Position& from) {
  items_.resize(from.items_end);
  calls_.resize(from.num_calls);
  waiters_.resize(from.num_waiters);
  set_begin_ = items_.size();
  first_new_call_ = calls_.size();
  is_complete_ = false;
  new_calls_.clear();
  new_waiters_.clear();
}

// Whether the position has the item already; if not, it has it from now on.
bool Parser::IsKnown(const Item& item) {
  const auto key = [](const Item& one) {
    return uint64_t{one.state.value()} << 32 | uint64_t{one.call};
  };
  const auto begin = items_.begin() + static_cast<ptrdiff_t>(set_begin_);
  const size_t num_items = items_.size() - set_begin_;
  if (num_items < kFew) return std::find(begin, items_.end(), item) != items_.end();
  if (num_items == kFew) {
    item_table_.Clear();
    std::for_each(begin, items_.end(), [&](const Item& one) { item_table_.Insert(key(one)); });
  }
  return !item_table_.Insert(key(item)).second;
}

void Parser::Add(State state, uint32_t call) {
  if (state.is_dead() || gave_up_ || IsKnown({state, call})) return;
  if (items_.size() - set_begin_ >= kMaxItems || items_.size() * sizeof(Item) > kMaxBytes) {
    gave_up_ = true;
    return;
  }
  items_.push_back({state, call});
}

void Parser::End(uint32_t call) {
  if (call == 0) is_complete_ = true;
  if (call >= first_new_call_) return;  // an empty string: Predict has passed over it
  const Call ended = calls_[call];
  steps_left_ -= ended.num_waiters;
  for (uint32_t i = 0; i < ended.num_waiters; ++i) {
    const Item waiter = waiters_[ended.waiters_begin + i];
    Add(waiter.state, waiter.call);
  }
}

uint32_t Parser::CallOf(RuleId rule, State rest, uint32_t waiter) {
  // A call at the end of its rule: what follows it is what follows the rule.
  if (automaton_->IsEnd(rest)) return waiter;
  --steps_left_;
  uint32_t call = KnownCallOf(rule);
  if (call == 0) {
    call = static_cast<uint32_t>(calls_.size());
    calls_.push_back({0, 0});
    new_calls_.push_back({rule, call});
    if (new_calls_.size() == kFew) {
      call_table_.Clear();
      for (const auto& [known, id] : new_calls_) *call_table_.Insert(known).first = id;
    } else if (new_calls_.size() > kFew) {
      *call_table_.Insert(rule).first = call;
    }
  }
  if (new_waiters_.size() >= kMaxWaiters ||
      (waiters_.size() + new_waiters_.size()) * sizeof(Item) > kMaxBytes)
    gave_up_ = true;
  new_waiters_.push_back({call, {rest, waiter}});
  return call;
}

uint32_t Parser::KnownCallOf(RuleId rule) {
  if (new_calls_.size() < kFew) {
    for (const auto& [known, call] : new_calls_) {
      if (known == rule) return call;
    }
    return 0;
  }
  return *call_table_.Insert(rule).first;
}

void Parser::Predict(const Item& item) {
  for (const AutomatonCall& call : automaton_->CallsOf(item.state)) {
    if (gave_up_) return;
    Add(automaton_->StartOf(call.rule), CallOf(call.rule, call.rest, item.call));
    if (automaton_->IsNullableRule(call.rule)) Add(call.rest, item.call);
  }
}

// Adds all that follows without a byte, and drops the items that no byte can follow.
Parser::Position Parser::Close() {
  for (size_t i = set_begin_; i < items_.size() && !gave_up_; ++i) {
    const Item item = items_[i];
    if (--steps_left_ < 0) gave_up_ = true;
    if (item.state.is_final()) End(item.call);
    if (item.state.has_calls()) Predict(item);
  }
  const auto stuck = std::remove_if(items_.begin() + static_cast<ptrdiff_t>(set_begin_),
                                    items_.end(), [](Item item) { return item.state.is_stuck(); });
  items_.erase(stuck, items_.end());
  if (!new_waiters_.empty()) {
    std::stable_sort(new_waiters_.begin(), new_waiters_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [call, waiter] : new_waiters_) {
      if (calls_[call].num_waiters++ == 0)
        calls_[call].waiters_begin = static_cast<uint32_t>(waiters_.size());
      waiters_.push_back(waiter);
    }
  }
  return {static_cast<uint32_t>(set_begin_), static_cast<uint32_t>(items_.size()),
          static_cast<uint32_t>(calls_.size()), static_cast<uint32_t>(waiters_.size()),
          is_complete_};
}

Parser::Position Parser::Next(const Position& from, uint8_t byte) {
  Forget(from);
  if (gave_up_) return Close();
  steps_left_ -= from.items_end - from.items_begin;
  for (uint32_t i = from.items_begin; i < from.items_end; ++i) {
    const Item item = items_[i];
    Add(automaton_->Next(item.state, byte), item.call);
  }
  return Close();
}

Parser::Position Parser::Enter(const Position& from, Item item) {
  Forget(from);
  Add(item.state, item.call);
  return Close();
}

Parser::Position Parser::EndOf(const Position& from, uint32_t call) {
  Forget(from);
  End(call);
  return Close();
}

Parser::Position Parser::Only(const Position& from, absl::Span<const Item> items) {
  Forget(from);
  for (const Item& item : items) items_.push_back(item);
  return {static_cast<uint32_t>(set_begin_), static_cast<uint32_t>(items_.size()),
          static_cast<uint32_t>(calls_.size()), static_cast<uint32_t>(waiters_.size()), false};
}

}  // namespace quire
