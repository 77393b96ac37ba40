// The door's simple parts and the life of a sequence: Enqueue -> (TryAdmit in schedule.cc) ->
// Preempt or Finish -> Settle -> Enqueue again or Destroy.
#include "scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"

namespace quire {

namespace {

SnapshotPolicy PolicyOf(const SchedulerConfig& config, const BlockManagerConfig& blocks) {
  constexpr int64_t kShareOfOne = 4;  // so that a long prompt leaves room for those of others
  const int64_t num_spare = blocks.num_state_slots - blocks.num_reserved_states;
  return {.grid = blocks.snapshot_grid,
          .interval = config.snapshot_interval,
          .max_per_sequence = num_spare / kShareOfOne};
}

}  // namespace

Scheduler::Scheduler(const SchedulerConfig& config, const BlockManagerConfig& blocks)
    : config_(config),
      block_size_(blocks.block_size),
      prefix_caching_(blocks.enable_prefix_caching),
      takes_snapshots_(prefix_caching_ && blocks.num_state_slots > blocks.num_reserved_states),
      snapshot_policy_(PolicyOf(config, blocks)),
      blocks_(blocks),
      fair_(config.max_num_passed),
      queue_(config.max_num_queued_reqs, config.max_num_queued_tokens) {
  CHECK_GE(config.max_num_seqs, 1);
  // Then a step always has a token for every running sequence.
  CHECK_GE(config.max_num_batched_tokens, config.max_num_seqs);
  CHECK_GE(config.max_num_partial_prefills, 1);
  CHECK_GE(config.max_num_passed, 1);
  CHECK_GE(config.max_num_queued_reqs, 1);
  // Then every sequence with a row has a state.
  if (blocks.num_state_slots > 0) CHECK_GE(blocks.num_reserved_states, config.max_num_seqs);
  for (int64_t row = config.max_num_seqs - 1; row >= 0; --row) {
    free_rows_.push_back(static_cast<int32_t>(row));
  }
}

absl::Status Scheduler::Check(const Request& request) const {
  RETURN_IF_ERROR(CheckFits(request));
  return queue_.Check(request);
}

absl::Status Scheduler::Add(const std::shared_ptr<const Request>& request) {
  RETURN_IF_ERROR(CheckFits(*request));
  const int64_t n = request->sampling.n;
  const int64_t num_prompt_tokens = request->prompt.size();
  RequestState& state = requests_[request->id];
  CHECK(state.sequences.empty()) << "request id " << request->id << " is in use";
  for (int32_t index = 0; index < n; ++index) {
    auto sequence = std::make_unique<Sequence>();
    sequence->key = {request->id, index};
    sequence->request = request;
    if (request->constraint != nullptr) sequence->constraint = request->constraint->New();
    sequence->flow = fair_.Join(request->flow);
    sequence->arrival = next_arrival_;
    sequence->max_num_tokens =
        std::min(num_prompt_tokens + request->stop.max_tokens, config_.max_model_len);
    Enqueue(sequence.get());
    state.sequences.push_back(std::move(sequence));
  }
  state.num_left = n;
  ++next_arrival_;
  return absl::OkStatus();
}

// Whether the request could run if it had everything to itself.
absl::Status Scheduler::CheckFits(const Request& request) const {
  const int64_t num_prompt_tokens = request.prompt.size();
  if (num_prompt_tokens == 0) return absl::InvalidArgumentError("the prompt has no tokens");
  if (request.stop.max_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_tokens is ", request.stop.max_tokens, " but must be at least 1"));
  }
  if (num_prompt_tokens + 1 > config_.max_model_len) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the prompt has ", num_prompt_tokens, " tokens, but the model's maximum length is ",
        config_.max_model_len, " tokens, at least one of them generated"));
  }
  const int64_t max_num_tokens =
      std::min(num_prompt_tokens + request.stop.max_tokens, config_.max_model_len);
  const int64_t num_blocks = blocks_.stats().num_blocks;
  if (MaxBlocks(max_num_tokens) > num_blocks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the prompt of ", num_prompt_tokens, " tokens and up to ",
        max_num_tokens - num_prompt_tokens, " generated ones need ", MaxBlocks(max_num_tokens),
        " KV cache blocks, but the cache has ", num_blocks, "; lower max_tokens"));
  }
  return absl::OkStatus();
}

void Scheduler::Cancel(RequestId request, FinishReason reason) {
  const auto it = requests_.find(request);
  if (it == requests_.end()) return;
  // Finishing the last continuation may destroy the request's state, so count beforehand.
  const auto n = static_cast<int32_t>(it->second.sequences.size());
  for (int32_t index = 0; index < n; ++index) CancelSequence({request, index}, reason);
}

void Scheduler::CancelSequence(const SequenceKey& key, FinishReason reason) {
  CHECK(reason != FinishReason::kNone);
  Sequence* sequence = Find(key);
  if (sequence != nullptr) Finish(sequence, reason, /*matched_token=*/-1);
}

void Scheduler::SetPaused(const SequenceKey& key, bool paused) {
  Sequence* sequence = Find(key);
  if (sequence == nullptr) return;
  sequence->paused = paused;
  if (paused) {
    fair_.EndClaim(sequence);
  } else {
    fair_.Return(sequence->flow);
  }
}

std::vector<SequenceEvent> Scheduler::TakeEvents() { return std::exchange(events_, {}); }

bool Scheduler::HasUnfinished() const { return !requests_.empty() || !in_flight_.empty(); }

SchedulerStats Scheduler::stats() const {
  SchedulerStats stats;
  stats.num_waiting = queue_.all().num_places;
  stats.num_waiting_tokens = queue_.all().num_tokens;
  stats.num_running = running_.size();
  const auto is_paused = [](const Sequence* sequence) { return sequence->paused; };
  stats.num_paused = std::count_if(running_.begin(), running_.end(), is_paused);
  for (const FlowState* flow : fair_.flows()) {
    stats.num_paused += std::count_if(flow->waiting.begin(), flow->waiting.end(), is_paused);
  }
  stats.num_preemptions = num_preemptions_;
  stats.num_flows = fair_.num_flows();
  stats.blocks = blocks_.stats();
  return stats;
}

// The sequence, unless it has finished or never was.
Sequence* Scheduler::Find(const SequenceKey& key) {
  const auto it = requests_.find(key.request);
  if (it == requests_.end()) return nullptr;
  const auto& sequences = it->second.sequences;
  if (key.index < 0 || key.index >= static_cast<int32_t>(sequences.size())) return nullptr;
  Sequence* sequence = sequences[key.index].get();
  return sequence == nullptr || sequence->finished ? nullptr : sequence;
}

SequenceEvent& Scheduler::Emit(SequenceEvent::Kind kind, const Sequence& sequence) {
  SequenceEvent& event = events_.emplace_back();
  event.kind = kind;
  event.key = sequence.key;
  return event;
}

// Takes the row and the blocks away. Everything except the published blocks is computed again
// later.
void Scheduler::Preempt(Sequence* sequence) {
  CHECK(sequence->state == SequenceState::kRunning);
  ++sequence->num_preemptions;
  ++num_preemptions_;
  if (!sequence->paused) fair_.NoteWants(*sequence->flow);
  StopRunning(sequence);
}

void Scheduler::FinishWithError(Sequence* sequence, absl::Status error, bool is_broken) {
  const size_t place = events_.size();
  Finish(sequence, FinishReason::kError, /*matched_token=*/-1);
  events_[place].error = std::move(error);
  events_[place].is_broken = is_broken;
}

void Scheduler::Finish(Sequence* sequence, FinishReason reason, TokenId matched_token) {
  CHECK(!sequence->finished);
  sequence->finished = true;
  SequenceEvent& event = Emit(SequenceEvent::Kind::kFinished, *sequence);
  event.reason = reason;
  event.matched_token = matched_token;
  event.num_preemptions = sequence->num_preemptions;

  switch (sequence->state) {
    case SequenceState::kWaiting:
      Dequeue(sequence);
      Destroy(sequence);
      break;
    case SequenceState::kRunning:
      StopRunning(sequence);
      break;
    case SequenceState::kDraining:  // Commit settles it
      break;
  }
}

// Blocks that a step in flight may still read or write are given back only when it has come back.
void Scheduler::StopRunning(Sequence* sequence) {
  const auto it = std::find(running_.begin(), running_.end(), sequence);
  CHECK(it != running_.end());
  running_.erase(it);
  fair_.Stop(sequence);
  ++sequence->epoch;
  sequence->num_planned = 0;
  sequence->state = SequenceState::kDraining;
  draining_.push_back(sequence);
  if (sequence->num_steps_in_flight == 0) Settle(sequence);
}

void Scheduler::Settle(Sequence* sequence) {
  CHECK(sequence->state == SequenceState::kDraining);
  CHECK_EQ(sequence->num_steps_in_flight, 0);
  const auto it = std::find(draining_.begin(), draining_.end(), sequence);
  CHECK(it != draining_.end());
  draining_.erase(it);
  blocks_.Release(&sequence->table);
  free_rows_.push_back(std::exchange(sequence->row, -1));
  if (sequence->finished) {
    Destroy(sequence);
  } else {
    Enqueue(sequence);
    Observe(*sequence, /*enters=*/true);
  }
}

void Scheduler::Enqueue(Sequence* sequence) {
  CHECK(sequence->table.empty());
  CHECK(!sequence->has_row());
  sequence->state = SequenceState::kWaiting;
  sequence->num_computed = 0;
  sequence->num_submitted = 0;
  sequence->num_samples_in_flight = 0;
  sequence->num_blocks_shown = 0;
  fair_.Push(sequence);
  queue_.Enter(sequence->request->flow, {1, sequence->num_prompt_tokens()});
}

void Scheduler::Dequeue(Sequence* sequence) {
  fair_.Pop(sequence);
  queue_.Leave(sequence->request->flow, {1, sequence->num_prompt_tokens()});
  Observe(*sequence, /*enters=*/false);
}

void Scheduler::Observe(const Sequence& sequence, bool enters) {
  if (!queue_observer_) return;
  queue_observer_({sequence.request->flow, {1, sequence.num_prompt_tokens()}, enters});
}

void Scheduler::Destroy(Sequence* sequence) {
  CHECK(sequence->finished);
  const SequenceKey key = sequence->key;
  RequestState& state = requests_.at(key.request);
  fair_.Leave(sequence->flow);
  state.sequences[key.index].reset();
  if (--state.num_left == 0) requests_.erase(key.request);
}

}  // namespace quire
