// The automaton of a grammar's expressions, built as it is walked: a state is an expression, its
// transitions are derivatives. Shared by all requests with the grammar: known transitions are read
// without a lock, new ones are made under one. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "server/grammar/expr/derivative.h"
#include "server/grammar/expr/grammar.h"
#include "server/grammar/expr/liveness.h"

namespace quire {

// A state, and beside it in the three low bits its properties, so that a walk through plain states
// looks at nothing else. 0 is the dead state.
class State {
 public:
  struct Properties {
    bool is_final = false, has_calls = false, is_stuck = false;
  };

  constexpr State() = default;
  constexpr State(uint32_t index, Properties is)
      : value_((index << 3) | (uint32_t{is.is_stuck} << 2) | (uint32_t{is.is_final} << 1) |
               uint32_t{is.has_calls}) {}
  static constexpr State FromValue(uint32_t value) {
    State state;
    state.value_ = value;
    return state;
  }

  constexpr bool is_dead() const { return value_ == 0; }
  // The empty string is among what may follow.
  constexpr bool is_final() const { return (value_ & 2) != 0; }
  // A rule may be called here.
  constexpr bool has_calls() const { return (value_ & 1) != 0; }
  // No byte may come next, except in a rule that is called here.
  constexpr bool is_stuck() const { return (value_ & 4) != 0; }
  constexpr bool is_plain() const { return (value_ & 7) == 0; }
  constexpr uint32_t index() const { return value_ >> 3; }
  constexpr uint32_t value() const { return value_; }

  friend constexpr bool operator==(State, State) = default;

 private:
  uint32_t value_ = 0;
};

struct AutomatonCall {
  RuleId rule;
  State rest;  // the state after the rule's string
};

struct AutomatonLimits {
  size_t max_bytes = size_t{64} << 20;  // of expressions and states
  // Of the beginning, and of each new transition: searches (Liveness) and work (ExprStore).
  int64_t max_search = 20'000;
  uint64_t max_start_work = 10'000'000;
  uint64_t max_step_work = 500'000;
};

class Automaton {
 public:
  Automaton(std::unique_ptr<Grammar> grammar, const AutomatonLimits& limits);
  ~Automaton();
  Automaton(const Automaton&) = delete;
  Automaton& operator=(const Automaton&) = delete;

  // RESOURCE_EXHAUSTED when the limits were reached: every new transition is then dead, and answers
  // mean nothing.
  absl::Status status() const;
  bool ok() const { return !failed_.load(std::memory_order_relaxed); }

  State StartOf(RuleId rule) const { return rule_starts_[rule]; }
  bool IsNullableRule(RuleId rule) const { return is_nullable_rule_[rule]; }

  State Next(State state, uint8_t byte) const {
    const uint32_t value = Row(state.index())[class_of_[byte]].load(std::memory_order_acquire);
    return value != kUnknown ? State::FromValue(value) : Make(state, byte);
  }
  // Found at the first look.
  absl::Span<const AutomatonCall> CallsOf(State state) const {
    const StateInfo& info = InfoOf(state.index());
    if (!info.knows_calls.load(std::memory_order_acquire) && !FindCalls(state)) return {};
    return info.calls;
  }

  // The hash of the state's expression, 0 if it calls rules: what may follow in this state is the
  // same in every automaton whose state has the same hash.
  uint64_t PlainHash(State state) const;
  // Beginnings of what may follow `state` are, as far as `slack` bytes, those of what may follow
  // `relaxed`, which counts less (Relax in derivative.h).
  struct RelaxedState {
    State state;
    uint32_t slack;
  };
  RelaxedState Relaxed(State state) const;
  // States whose token sets others' may be made of: the grammar's landmarks, and the latest that
  // were named with AddLandmark.
  std::vector<State> landmarks() const;
  void AddLandmark(State state) const;

  // Whether only the empty string may follow.
  bool IsEnd(State state) const { return state == end_; }

  size_t num_bytes() const { return num_bytes_.load(std::memory_order_relaxed); }

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;
  static constexpr int kChunkBits = 7;
  static constexpr uint32_t kChunkSize = 1 << kChunkBits;
  static constexpr uint32_t kMaxChunks = 4096;

  struct StateInfo {
    ExprId expr = 0;
    uint64_t plain_hash = 0;
    std::atomic<bool> knows_calls = false;
    std::vector<AutomatonCall> calls;
  };
  struct Chunk {
    std::unique_ptr<std::atomic<uint32_t>[]> next;  // [kChunkSize, num_classes_]
    std::array<StateInfo, kChunkSize> info;
  };

  const std::atomic<uint32_t>* Row(uint32_t index) const {
    const Chunk* const chunk = chunks_[index >> kChunkBits].load(std::memory_order_acquire);
    return chunk->next.get() + (index & (kChunkSize - 1)) * num_classes_;
  }
  const StateInfo& InfoOf(uint32_t index) const {
    return chunks_[index >> kChunkBits]
        .load(std::memory_order_acquire)
        ->info[index & (kChunkSize - 1)];
  }
  State Make(State state, uint8_t byte) const;
  quire::Relaxed WithoutCounter(ExprId expr) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool FindCalls(State state) const;
  State StateOf(ExprId expr) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Chunk* ChunkFor(uint32_t index) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Refuel() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Account() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AutomatonLimits limits_;
  const std::unique_ptr<Grammar> grammar_;  // its store changes under mutex_
  std::array<uint8_t, 256> class_of_;
  uint32_t num_classes_ = 0;
  std::vector<State> rule_starts_;
  std::vector<bool> is_nullable_rule_;
  State end_;
  // The parts to which walks add.
  mutable absl::Mutex mutex_;
  mutable std::unique_ptr<Liveness> liveness_ ABSL_GUARDED_BY(mutex_);
  mutable std::vector<uint32_t> state_of_expr_ ABSL_GUARDED_BY(mutex_);  // State::value; kUnknown
  mutable absl::flat_hash_map<uint32_t, RelaxedState> relaxed_ ABSL_GUARDED_BY(mutex_);  // by index
  mutable std::vector<State> landmarks_ ABSL_GUARDED_BY(mutex_);
  mutable size_t num_fixed_landmarks_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable uint32_t num_states_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable size_t call_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable std::unique_ptr<std::atomic<Chunk*>[]> chunks_;  // [kMaxChunks]
  mutable std::atomic<bool> failed_ = false;
  mutable std::atomic<size_t> num_bytes_ = 0;
};

}  // namespace quire
