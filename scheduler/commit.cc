// Scheduler::Commit: the only place where progress becomes true.
#include <algorithm>
#include <iterator>
#include <utility>

#include "kernels/base/check.h"
#include "scheduler/scheduler.h"
#include "scheduler/stop.h"

namespace quire {

void Scheduler::Commit(StepResult result) {
  CHECK(!in_flight_.empty()) << "no step is in flight";
  const StepInFlight step = std::move(in_flight_.front());
  in_flight_.pop_front();
  CHECK_EQ(result.step, step.step) << "steps are committed in the order they were scheduled";
  CHECK_EQ(result.sequences.size(), step.entries.size());

  FetchRunning();
  events_.reserve(events_.size() + step.entries.size());
  absl::Span<const StepInFlight::Snapshot> snapshots = step.snapshots;
  for (size_t i = 0; i < step.entries.size(); ++i) {
    const StepInFlight::Entry& entry = step.entries[i];
    Sequence* sequence = entry.sequence;
    const auto own_snapshots = snapshots.first(entry.num_snapshots);
    snapshots.remove_prefix(entry.num_snapshots);
    --sequence->num_steps_in_flight;
    if (entry.epoch == sequence->epoch) {
      Accept(entry, std::move(result.sequences[i]), own_snapshots);
    } else {
      // Preempted or finished meanwhile: the result is dropped, the blocks come back.
      DropSnapshots(own_snapshots);
      CHECK(sequence->state == SequenceState::kDraining);
      if (sequence->num_steps_in_flight == 0) Settle(sequence);
    }
  }
}

void Scheduler::Accept(const StepInFlight::Entry& entry, SequenceResult result,
                       absl::Span<const StepInFlight::Snapshot> snapshots) {
  Sequence* sequence = entry.sequence;
  CHECK(sequence->state == SequenceState::kRunning);
  CHECK_EQ(entry.start, sequence->num_computed);
  if (result.is_broken) {  // nothing is published: its keys and values may be no numbers, too
    DropSnapshots(snapshots);
    return FinishWithError(
        sequence, absl::InternalError("the model produced logits that are no numbers (NaN)"),
        /*is_broken=*/true);
  }
  CHECK_EQ(static_cast<int32_t>(result.samples.size()), entry.num_samples);
  ReportPromptLogprobs(entry, &result);

  sequence->num_computed += entry.num_new;
  for (const SampledToken& sample : result.samples) sequence->tokens.push_back(sample.id);
  sequence->num_samples_in_flight -= entry.num_samples;
  if (entry.num_samples > 0) fair_.EndClaim(sequence);
  blocks_.Publish(&sequence->table, sequence->tokens, sequence->num_computed,
                  sequence->request->cache_salt);
  blocks_.ReleaseBeginning(&sequence->table);
  for (const auto& [boundary, slot] : snapshots) {
    blocks_.FinishSnapshot(sequence->table, sequence->tokens, boundary, slot);
  }
  blocks_.ReleaseOutsideWindow(&sequence->table, sequence->num_computed);
  const int64_t num_prompt_tokens = sequence->num_prompt_tokens();
  if (sequence->key.index == 0 && entry.start < num_prompt_tokens &&
      sequence->num_computed >= num_prompt_tokens) {
    requests_.at(sequence->key.request).prompt_computed = true;
  }
  int64_t num_generated = sequence->num_tokens() - num_prompt_tokens - entry.num_samples;
  for (SampledToken& sample : result.samples) {
    TokenConstraint* const constraint = sequence->constraint.get();
    if (constraint != nullptr) {
      if (absl::Status status = constraint->Accept(sample.id); !status.ok()) {
        return FinishWithError(sequence, std::move(status), /*is_broken=*/false);
      }
    }
    SequenceEvent& event = Emit(SequenceEvent::Kind::kToken, *sequence);
    event.token = sample.id;
    event.logprobs = std::move(sample.logprobs);
    StopDecision decision = CheckStop(sequence->request->stop, sample.id, ++num_generated,
                                      sequence->max_num_tokens - num_prompt_tokens);
    // Nothing can follow: it is the end, whether or not it was the last token that was allowed.
    if (constraint != nullptr && constraint->is_at_end()) decision.reason = FinishReason::kStop;
    if (decision.reason == FinishReason::kNone) continue;
    return Finish(sequence, decision.reason, decision.matched_token);
  }
}

void Scheduler::DropSnapshots(absl::Span<const StepInFlight::Snapshot> snapshots) {
  for (const StepInFlight::Snapshot& snapshot : snapshots) blocks_.DropSnapshot(snapshot.slot);
}

// Passes on what has not been reported before: after a preemption the prompt is run again, in other
// chunks.
void Scheduler::ReportPromptLogprobs(const StepInFlight::Entry& entry, SequenceResult* result) {
  Sequence* sequence = entry.sequence;
  if (!sequence->OwesPromptLogprobs()) return;
  const int64_t num_scored =
      std::min(entry.start + entry.num_new, sequence->num_prompt_tokens() - 1);
  CHECK_EQ(static_cast<int64_t>(result->prompt_logprobs.size()), num_scored - entry.start);
  const int64_t num_known = sequence->num_prompt_scored - entry.start;
  if (num_scored <= sequence->num_prompt_scored) return;

  SequenceEvent& event = Emit(SequenceEvent::Kind::kPromptLogprobs, *sequence);
  std::move(result->prompt_logprobs.begin() + num_known, result->prompt_logprobs.end(),
            std::back_inserter(event.prompt_logprobs));
  sequence->num_prompt_scored = num_scored;
}

}  // namespace quire
