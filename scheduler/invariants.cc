// Scheduler::CheckInvariants: what must hold between any two calls.
#include <algorithm>

#include "kernels/base/check.h"
#include "scheduler/scheduler.h"

namespace quire {
namespace {

void CheckSequence(const Sequence& sequence, int32_t block_size) {
  CHECK_LE(0, sequence.num_computed);
  CHECK_LE(sequence.num_computed, sequence.num_submitted);
  CHECK_LE(sequence.num_submitted, sequence.num_expected());
  CHECK_LE(sequence.num_expected(), sequence.max_num_tokens);
  CHECK_EQ(sequence.num_planned, 0);
  const int64_t num_blocks = sequence.table.empty() ? 0 : sequence.table.blocks[0].size();
  CHECK_GE(num_blocks * block_size, sequence.num_submitted);
  switch (sequence.state) {
    case SequenceState::kWaiting:
      CHECK(!sequence.finished);
      CHECK(!sequence.has_row());
      CHECK_EQ(num_blocks, 0);
      CHECK_EQ(sequence.num_steps_in_flight, 0);
      break;
    case SequenceState::kRunning:
      CHECK(!sequence.finished);
      CHECK(sequence.has_row());
      CHECK_EQ(sequence.num_computed<sequence.num_submitted, sequence.num_steps_in_flight> 0);
      // The state that a sequence began from is held until its first step is done.
      if (sequence.num_computed > sequence.num_cached_tokens) {
        CHECK_EQ(sequence.table.begins_from, kNoState);
      }
      break;
    case SequenceState::kDraining:
      CHECK(sequence.has_row());
      CHECK_GT(sequence.num_steps_in_flight, 0);
      break;
  }
}

}  // namespace

void Scheduler::CheckInvariants() const {
  std::vector<const BlockTable*> tables;
  std::vector<int32_t> rows = free_rows_;
  absl::flat_hash_map<const FlowState*, int64_t> num_owed;
  int64_t num_waiting_tokens = 0;
  size_t num_sequences = 0;
  for (const auto& [id, state] : requests_) {
    int64_t num_left = 0;
    for (const auto& sequence : state.sequences) {
      if (sequence == nullptr) continue;
      ++num_left;
      CheckSequence(*sequence, block_size_);
      CHECK(!sequence->is_owed || sequence->state == SequenceState::kRunning);
      num_owed[sequence->flow] += sequence->is_owed ? 1 : 0;
      if (sequence->state == SequenceState::kRunning) {
        CHECK_LE(sequence->table.num_held(), MaxBlocks(sequence->max_num_tokens));
      }
      tables.push_back(&sequence->table);
      if (sequence->has_row()) rows.push_back(sequence->row);
      if (sequence->state == SequenceState::kWaiting) {
        CHECK_EQ(sequence->flow->waiting.count(sequence.get()), size_t{1});
        num_waiting_tokens += sequence->num_prompt_tokens();
      }
    }
    CHECK_EQ(num_left, state.num_left);
    CHECK_GT(num_left, 0);
    num_sequences += num_left;
  }
  CHECK_EQ(num_sequences, fair_.num_waiting() + running_.size() + draining_.size());
  CHECK_EQ(queue_.all().num_places, static_cast<int64_t>(fair_.num_waiting()));
  CHECK_EQ(queue_.all().num_tokens, num_waiting_tokens);
  for (const FlowState* flow : fair_.flows()) {
    CHECK_EQ(queue_.HeldBy(flow->id).num_places, static_cast<int64_t>(flow->waiting.size()));
  }
  for (const auto& [flow, num] : num_owed) CHECK_EQ(flow->num_owed, num);
  fair_.CheckInvariants();
  CHECK(std::is_sorted(running_.begin(), running_.end(), OutranksLess()));

  // Every row belongs to exactly one sequence or to the free list.
  std::sort(rows.begin(), rows.end());
  CHECK_EQ(static_cast<int64_t>(rows.size()), config_.max_num_seqs);
  for (size_t i = 0; i < rows.size(); ++i) CHECK_EQ(rows[i], static_cast<int32_t>(i));
  std::vector<StateSlot> snapshots;
  for (const StepInFlight& step : in_flight_) {
    for (const auto& [boundary, slot] : step.snapshots) snapshots.push_back(slot);
  }
  blocks_.CheckInvariants(tables, snapshots);
}

}  // namespace quire
