#include "server/grammar/expr/automaton.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "kernels/base/check.h"

namespace quire {

Automaton::Automaton(std::unique_ptr<Grammar> grammar, const AutomatonLimits& limits)
    : limits_(limits),
      grammar_(std::move(grammar)),
      chunks_(std::make_unique<std::atomic<Chunk*>[]>(kMaxChunks)) {
  CHECK(!grammar_->rules.empty());
  absl::MutexLock lock(&mutex_);
  const std::vector<uint8_t> classes = grammar_->store.ByteClasses();
  std::vector<uint8_t> byte_of_class;
  for (int byte = 0; byte < 256; ++byte) {
    class_of_[byte] = classes[byte];
    if (classes[byte] == byte_of_class.size()) byte_of_class.push_back(static_cast<uint8_t>(byte));
  }
  num_classes_ = static_cast<uint32_t>(byte_of_class.size());
  grammar_->store.LimitWork(limits.max_start_work);
  liveness_ =
      std::make_unique<Liveness>(grammar_.get(), std::move(byte_of_class), limits.max_search);
  CHECK(StateOf(ExprStore::kNothing).is_dead());
  end_ = StateOf(ExprStore::kEmpty);
  for (size_t i = 0; i < grammar_->rules.size(); ++i) {
    is_nullable_rule_.push_back(liveness_->IsNullableRule(static_cast<RuleId>(i)));
  }
  for (const ExprId expr : grammar_->rules) rule_starts_.push_back(StateOf(expr));
  for (const ExprId expr : grammar_->landmarks) landmarks_.push_back(StateOf(expr));
  num_fixed_landmarks_ = landmarks_.size();
  Account();
}

Automaton::~Automaton() {
  for (uint32_t i = 0; i < kMaxChunks; ++i) delete chunks_[i].load(std::memory_order_relaxed);
}

absl::Status Automaton::status() const {
  if (ok()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      "the constraint is too complex: it needs more memory or time than allowed");
}

void Automaton::Refuel() const {
  grammar_->store.LimitWork(limits_.max_step_work);
  liveness_->Refuel();
}

void Automaton::Account() const {
  const size_t num_chunks = (num_states_ + kChunkSize - 1) / kChunkSize;
  const size_t bytes = grammar_->store.num_bytes() + call_bytes_ +
                       num_chunks * (sizeof(Chunk) + kChunkSize * num_classes_ * sizeof(uint32_t));
  num_bytes_.store(bytes, std::memory_order_relaxed);
  if (bytes > limits_.max_bytes || grammar_->store.overflowed() || liveness_->gave_up()) {
    failed_.store(true, std::memory_order_relaxed);
  }
}

Automaton::Chunk* Automaton::ChunkFor(uint32_t index) const {
  std::atomic<Chunk*>& slot = chunks_[index >> kChunkBits];
  if (Chunk* const chunk = slot.load(std::memory_order_relaxed); chunk != nullptr) return chunk;
  auto chunk = std::make_unique<Chunk>();
  const size_t size = size_t{kChunkSize} * num_classes_;
  chunk->next = std::make_unique<std::atomic<uint32_t>[]>(size);
  for (size_t i = 0; i < size; ++i) chunk->next[i].store(kUnknown, std::memory_order_relaxed);
  if (index == 0) {  // the dead state stays dead
    for (size_t i = 0; i < num_classes_; ++i) chunk->next[i].store(0, std::memory_order_relaxed);
  }
  slot.store(chunk.get(), std::memory_order_release);
  return chunk.release();
}

State Automaton::StateOf(ExprId expr) const {
  ExprStore& store = grammar_->store;
  if (expr >= state_of_expr_.size()) {
    state_of_expr_.resize(std::max<size_t>(store.size(), expr + 1), kUnknown);
  }
  if (state_of_expr_[expr] != kUnknown) return State::FromValue(state_of_expr_[expr]);
  const bool is_certain =
      !store.may_be_nothing(expr) && (!store.has_rules(expr) || liveness_->all_rules_live());
  if (expr == ExprStore::kNothing || (!is_certain && !liveness_->IsLive(expr))) {
    if (expr == ExprStore::kNothing) {
      ChunkFor(0);
      num_states_ = std::max<uint32_t>(num_states_, 1);
    }
    state_of_expr_[expr] = 0;
    return State();
  }
  if (num_states_ >= kMaxChunks * kChunkSize) {
    failed_.store(true, std::memory_order_relaxed);
    return State();
  }
  const uint32_t index = num_states_++;
  const Beginning beginning = BeginningOf(store, expr);
  const State state(index, {.is_final = store.is_nullable(expr),
                            .has_calls = beginning.has_call,
                            .is_stuck = !beginning.has_byte});
  state_of_expr_[expr] = state.value();
  StateInfo& info = ChunkFor(index)->info[index & (kChunkSize - 1)];
  info.expr = expr;
  info.plain_hash = store.has_rules(expr) ? 0 : store.hash(expr);
  return state;
}

// Apart from StateOf, because the states after the calls have calls, too: in a long list of calls,
// each state would wait for the next.
bool Automaton::FindCalls(State state) const {
  absl::MutexLock lock(&mutex_);
  const StateInfo& known = InfoOf(state.index());
  if (known.knows_calls.load(std::memory_order_relaxed)) return true;
  if (!ok()) return false;
  Refuel();
  StateInfo& info = const_cast<StateInfo&>(known);
  for (const RuleCall& call : quire::CallsOf(&grammar_->store, info.expr)) {
    const State rest = StateOf(call.rest);
    if (!rest.is_dead() && liveness_->IsLive(grammar_->rules[call.rule]))
      info.calls.push_back({call.rule, rest});
  }
  call_bytes_ += info.calls.capacity() * sizeof(AutomatonCall);
  Account();
  info.knows_calls.store(true, std::memory_order_release);
  return true;
}

State Automaton::Make(State state, uint8_t byte) const {
  absl::MutexLock lock(&mutex_);
  std::atomic<uint32_t>& slot =
      const_cast<std::atomic<uint32_t>&>(Row(state.index())[class_of_[byte]]);
  if (const uint32_t value = slot.load(std::memory_order_relaxed); value != kUnknown)
    return State::FromValue(value);
  if (!ok()) return State();
  Refuel();
  const State next = StateOf(Derivative(&grammar_->store, InfoOf(state.index()).expr, byte));
  Account();
  slot.store(next.value(), std::memory_order_release);
  return next;
}

// For a text that a pattern and a count of characters limit: the pattern by itself. While more
// characters are left than the pattern ever needs to come to an end, the count changes nothing.
quire::Relaxed Automaton::WithoutCounter(ExprId expr) const {
  constexpr size_t kMaxPatternStates = 64;
  ExprStore& store = grammar_->store;
  const bool is_concat = store.kind(expr) == ExprKind::kConcat;
  const ExprId head = is_concat ? store.first(expr) : expr;
  if (store.kind(head) != ExprKind::kAnd || store.has_rules(expr)) return {expr, kUnbounded};
  std::vector<ExprId> others;
  uint32_t left = kUnbounded;
  for (const ExprId operand :
       std::vector<ExprId>(store.operands(head).begin(), store.operands(head).end())) {
    const bool counts = store.kind(operand) == ExprKind::kRepeat && store.min(operand) == 0 &&
                        store.max(operand) != kUnbounded &&
                        store.first(operand) == store.counted_character();
    counts ? (void)(left = std::min(left, store.max(operand))) : others.push_back(operand);
  }
  if (left == kUnbounded || others.empty()) return {expr, kUnbounded};
  const ExprId pattern = store.And(others);
  const std::optional<uint32_t> way = liveness_->LongestWayToEnd(pattern, kMaxPatternStates);
  if (!way.has_value() || *way >= left) return {expr, kUnbounded};
  return {is_concat ? store.Concat(pattern, store.second(expr)) : pattern, left - *way};
}

std::vector<State> Automaton::landmarks() const {
  absl::MutexLock lock(&mutex_);
  return landmarks_;
}

void Automaton::AddLandmark(State state) const {
  constexpr size_t kMaxLandmarks = 8;
  absl::MutexLock lock(&mutex_);
  if (landmarks_.size() >= num_fixed_landmarks_ + kMaxLandmarks) {
    landmarks_.erase(landmarks_.begin() + static_cast<ptrdiff_t>(num_fixed_landmarks_));
  }
  landmarks_.push_back(state);
}

Automaton::RelaxedState Automaton::Relaxed(State state) const {
  absl::MutexLock lock(&mutex_);
  const auto [entry, is_new] = relaxed_.try_emplace(state.index(), RelaxedState{state, kUnbounded});
  if (is_new && ok()) {
    Refuel();
    const ExprId expr = InfoOf(state.index()).expr;
    quire::Relaxed relaxed = Relax(&grammar_->store, expr);
    if (relaxed.expr == expr) relaxed = WithoutCounter(expr);
    entry->second = {StateOf(relaxed.expr), relaxed.slack};
    Account();
  }
  return entry->second;
}

uint64_t Automaton::PlainHash(State state) const { return InfoOf(state.index()).plain_hash; }

}  // namespace quire
