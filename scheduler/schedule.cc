// Scheduler::Schedule. Waiting sequences are admitted, every sequence with one token to run gets
// it, and those with more to run share the rest of the budget. Planning only notes num_planned, so
// that a later preemption can still take it back; HandOut then makes the step out of what is left.
#include <algorithm>
#include <utility>

#include "kernels/base/check.h"
#include "scheduler/prefill_budget.h"
#include "scheduler/scheduler.h"

namespace quire {

namespace {

template <typename T>
void Prefetch(const T* object) {
  constexpr size_t kCacheLine = 64;
  const char* bytes = reinterpret_cast<const char*>(object);
  for (size_t i = 0; i < sizeof(T); i += kCacheLine) __builtin_prefetch(bytes + i);
  __builtin_prefetch(bytes + sizeof(T) - 1);  // it may begin in the middle of a line
}

}  // namespace

SchedulerOutput Scheduler::Schedule() {
  CHECK_LE(in_flight_.size(), size_t{1}) << "lookahead is one step";
  FetchRunning();
  AdmitWaiting();
  PlanChunks(config_.max_num_batched_tokens - PlanSingleTokens());
  return HandOut();
}

// A step's kernels, or other programs on this core, have emptied the caches. This asks at once for
// all memory of all sequences that scheduling and committing touch, instead of waiting for one line
// after the other.
void Scheduler::FetchRunning() const {
  for (const Sequence* sequence : running_) Prefetch(sequence);
  for (const Sequence* sequence : running_) {
    Prefetch(sequence->request.get());
    Prefetch(sequence->table.blocks.data());
    Prefetch(sequence->table.first_held.data());
    Prefetch(sequence->tokens.data() + sequence->tokens.size());
  }
}

// Returns the tokens planned.
int64_t Scheduler::PlanSingleTokens() {
  int64_t num_planned = 0;
  const std::vector<Sequence*> by_rank = running_;  // planning may preempt
  for (Sequence* sequence : by_rank) {
    if (!sequence->CanRun() || sequence->num_to_submit() != 1) continue;
    if (Plan(sequence, 1)) {
      ++num_planned;
    } else {
      fair_.NoteWants(*sequence->flow);
    }
  }
  return num_planned;
}

void Scheduler::PlanChunks(int64_t budget) {
  std::vector<Sequence*> prompts;  // best rank first
  std::vector<PrefillDemand> demands;
  for (Sequence* sequence : running_) {
    if (!sequence->CanRun() || sequence->num_to_submit() == 1) continue;
    const FlowState& flow = *sequence->flow;
    prompts.push_back(sequence);
    demands.push_back({.priority = sequence->request->priority,
                       .num_wanted = sequence->num_to_submit(),
                       .flow_time = flow.served,
                       .token_time = flow.Cost(1),
                       .flow = flow.turn,
                       .is_owed = sequence->is_owed});
    fair_.NoteWants(flow);
  }
  DividePrefillBudget(budget, config_.max_num_partial_prefills, absl::MakeSpan(demands));
  for (size_t i = 0; i < prompts.size(); ++i) {
    // A better-ranked one may have preempted it meanwhile.
    if (demands[i].num_granted > 0 && prompts[i]->CanRun()) {
      Plan(prompts[i], demands[i].num_granted);
    }
  }
}

// Gets the blocks for the next `num_tokens` tokens, from worse-ranked sequences if need be. A
// sequence that cannot have them keeps what it has and waits.
bool Scheduler::Plan(Sequence* sequence, int64_t num_tokens) {
  CHECK_EQ(sequence->num_planned, 0);
  CHECK_LE(num_tokens, sequence->num_to_submit());
  const int64_t num_covered = sequence->num_submitted + num_tokens;
  while (!blocks_.TryGrow(&sequence->table, num_covered)) {
    if (!draining_.empty()) return false;  // blocks are on their way back: no need to preempt yet
    const int64_t num_missing =
        blocks_.NumBlocksToGrow(sequence->table, num_covered) - blocks_.num_free_blocks();
    if (!PreemptFor(*sequence, num_missing)) return false;
  }
  sequence->num_planned = num_tokens;
  return true;
}

// Within a flow a running sequence may push out worse-ranked ones; a waiting one only those of a
// worse priority, so that equals are served first come, first served. Of other flows a running one
// may push out those that have come further; a waiting one only where they have more than their
// share of the rows. Paused ones make way for everybody.
bool Scheduler::MayPreempt(const Sequence& requester, const Sequence& victim) const {
  if (&requester == &victim) return false;
  if (victim.paused) return true;
  const bool is_running = requester.state == SequenceState::kRunning;
  if (requester.flow == victim.flow) {
    return is_running ? requester.Outranks(victim)
                      : requester.request->priority < victim.request->priority;
  }
  return is_running ? requester.flow->IsBehind(*victim.flow)
                    : fair_.MayDisplace(*requester.flow, *victim.flow);
}

// The running sequences in the order in which they make way: paused ones, then those of the flow
// that has come furthest, each worst rank first.
std::vector<Sequence*> Scheduler::WorstFirst() const {
  std::vector<Sequence*> sequences(running_.rbegin(), running_.rend());
  std::stable_partition(sequences.begin(), sequences.end(),
                        [](const Sequence* sequence) { return sequence->paused; });
  if (!fair_.IsShared()) return sequences;
  const auto goes_before = [](const Sequence* a, const Sequence* b) {
    if (a->paused != b->paused) return a->paused;
    return a->flow != b->flow && b->flow->IsBehind(*a->flow);
  };
  std::stable_sort(sequences.begin(), sequences.end(), goes_before);
  return sequences;
}

// Preempts others until they held `num_missing_blocks` (and at least one went, for its row). False,
// and nobody is preempted, when even all together do not hold enough. Blocks shared with others are
// counted although they do not come back, so the caller looks again. A flow that pushes another out
// pays for what must be computed again.
bool Scheduler::PreemptFor(const Sequence& requester, int64_t num_missing_blocks) {
  std::vector<Sequence*> victims;
  int64_t num_held = 0;
  const auto is_enough = [&] { return !victims.empty() && num_held >= num_missing_blocks; };
  for (Sequence* sequence : WorstFirst()) {
    if (is_enough()) break;
    if (!MayPreempt(requester, *sequence)) continue;
    victims.push_back(sequence);
    ++sequence->flow->num_victims;
    num_held += sequence->table.num_held();
  }
  for (const Sequence* victim : victims) victim->flow->num_victims = 0;
  if (!is_enough()) return false;
  for (Sequence* victim : victims) {
    if (victim->flow != requester.flow && !victim->paused) {
      fair_.Charge(requester.flow, victim->num_computed);
    }
    Preempt(victim);
  }
  return true;
}

// Admits waiting sequences into rows: by claims, then in turn.
void Scheduler::AdmitWaiting() {
  for (const Sequence* sequence : draining_) {
    if (!sequence->finished) fair_.NoteWants(*sequence->flow);
  }
  if (AdmitClaims()) {
    AdmitInTurn();
  } else if (const Sequence* next = NextToAdmit()) {
    fair_.NoteWants(*next->flow);
  }
  CountPassed();
}

// False when one does not fit yet: nobody overtakes it.
bool Scheduler::AdmitClaims() {
  for (const FlowState* flow : fair_.Claims()) {
    Sequence* sequence = NextOfFlow(*flow);
    if (sequence == nullptr || HasWorkEnough(*sequence)) continue;
    if (!TryAdmit(sequence)) {
      fair_.NoteWants(*flow);
      return false;
    }
    fair_.BeginClaim(sequence);
  }
  return true;
}

// Each time the best-ranked of the flow that is furthest behind and has not work enough for this
// step. Stops at the first that does not fit: nobody overtakes it.
void Scheduler::AdmitInTurn() {
  while (Sequence* sequence = NextToAdmit()) {
    if (TryAdmit(sequence)) continue;
    fair_.NoteWants(*sequence->flow);
    return;
  }
}

// Flows that want a row, got none in this step and are short beside another are passed over; and
// who was before and still has none is until it gets one: others may have few rows and all blocks.
void Scheduler::CountPassed() {
  const FlowState* most = fair_.MostRows();
  for (FlowState* flow : fair_.flows()) {
    const bool still_has_none = flow->num_passed > 0 && flow->num_running == 0;
    bool is_passed = still_has_none || (most != nullptr && FairQueue::IsShort(*flow, *most));
    if (is_passed) {
      const Sequence* sequence = NextOfFlow(*flow);
      is_passed = sequence != nullptr && !HasWorkEnough(*sequence);
    }
    flow->num_passed = is_passed ? flow->num_passed + 1 : 0;
  }
}

Sequence* Scheduler::NextToAdmit() {
  for (const FlowState* flow : fair_.flows()) {
    Sequence* sequence = NextOfFlow(*flow);
    if (sequence != nullptr && !HasWorkEnough(*sequence)) return sequence;
  }
  return nullptr;
}

// Beyond max_num_partial_prefills prompts of the same or a better priority, a flow's next is
// admitted only while all of them fit into this step.
bool Scheduler::HasWorkEnough(const Sequence& next) const {
  int64_t num_prompts = 0;
  int64_t num_wanted_tokens = 0;
  for (const Sequence* other : running_) {
    if (!other->CanRun()) continue;
    const bool is_prompt = other->num_to_submit() > 1;
    // Single tokens go first whatever their priority.
    if (is_prompt &&
        (other->flow != next.flow || other->request->priority > next.request->priority)) {
      continue;
    }
    num_prompts += is_prompt ? 1 : 0;
    num_wanted_tokens += other->num_to_submit();
  }
  return num_wanted_tokens >= config_.max_num_batched_tokens &&
         num_prompts >= config_.max_num_partial_prefills;
}

// Skips who is paused, and continuations whose prompt the first one is still computing: they will
// attach its blocks.
Sequence* Scheduler::NextOfFlow(const FlowState& flow) {
  for (Sequence* sequence : flow.waiting) {
    if (sequence->paused) continue;
    if (sequence->key.index > 0 && prefix_caching_) {
      const RequestState& state = requests_.at(sequence->key.request);
      const Sequence* first = state.sequences[0].get();
      const bool first_gets_on = first != nullptr && !first->finished && !first->paused;
      if (first_gets_on && !state.prompt_computed) {
        fair_.NoteWants(flow);
        continue;
      }
    }
    return sequence;
  }
  return nullptr;
}

bool Scheduler::TryAdmit(Sequence* sequence) {
  // Spares a long prompt's look-up in every step in which there is nothing to gain.
  const bool may_preempt =
      std::any_of(running_.begin(), running_.end(),
                  [&](const Sequence* other) { return MayPreempt(*sequence, *other); });
  const bool has_room = !free_rows_.empty() && blocks_.num_free_blocks() > NumReservedBlocks();
  if (!has_room && !may_preempt) return false;

  while (true) {
    const int64_t num_missing = NumBlocksMissingToAdmit(sequence);
    if (num_missing <= 0 && !free_rows_.empty()) break;
    if (!draining_.empty() || !PreemptFor(*sequence, num_missing)) return false;
  }

  Dequeue(sequence);
  sequence->state = SequenceState::kRunning;
  sequence->row = free_rows_.back();
  free_rows_.pop_back();
  if (sequence->tokens.empty()) sequence->tokens = sequence->request->prompt;
  // Prompt logprobs come from running the prompt, so nothing of it may be skipped.
  sequence->num_cached_tokens =
      sequence->OwesPromptLogprobs()
          ? 0
          : blocks_.AttachPrefix(sequence->tokens, sequence->request->cache_salt, &sequence->table);
  sequence->num_computed = sequence->num_submitted = sequence->num_cached_tokens;
  fair_.Admit(sequence);
  running_.insert(std::upper_bound(running_.begin(), running_.end(), sequence, OutranksLess()),
                  sequence);
  return true;
}

// How many blocks are missing for all tokens that `sequence` knows, leaving to the running ones
// what they need soon; so admission does not lead straight to preemption.
int64_t Scheduler::NumBlocksMissingToAdmit(Sequence* sequence) {
  PrefixMatch match;
  if (!sequence->OwesPromptLogprobs()) {
    match = blocks_.FindPrefix(sequence->known(), sequence->request->cache_salt, &sequence->table);
  }
  const int64_t num_needed = MaxBlocksSoon(*sequence) - match.num_blocks;
  const int64_t num_available =
      blocks_.num_free_blocks() - match.num_free_blocks - NumReservedBlocks();
  return num_needed - num_available;
}

// Two steps can be in flight before the first one's window is released.
int64_t Scheduler::MaxBlocks(int64_t num_tokens) const {
  return blocks_.MaxBlocksFor(num_tokens, 2 * config_.max_num_batched_tokens);
}

// Blocks for the known tokens and one block's growth.
int64_t Scheduler::MaxBlocksSoon(const Sequence& sequence) const {
  return MaxBlocks(std::min(sequence.num_expected() + block_size_, sequence.max_num_tokens));
}

int64_t Scheduler::NumReservedBlocks() const {
  int64_t num_reserved = 0;
  for (const Sequence* sequence : running_) {
    if (sequence->paused) continue;
    num_reserved += std::max<int64_t>(MaxBlocksSoon(*sequence) - sequence->table.num_held(), 0);
  }
  return num_reserved;
}

SchedulerOutput Scheduler::HandOut() {
  SchedulerOutput output;
  output.step = next_step_;
  StepInFlight step;
  step.step = next_step_;
  output.sequences.reserve(running_.size());
  step.entries.reserve(running_.size());
  const auto is_decode = [](const Sequence& sequence) {
    return sequence.num_planned == 1 && sequence.num_to_submit() == 1;
  };
  for (const bool decodes : {true, false}) {
    for (Sequence* sequence : running_) {
      if (sequence->num_planned == 0 || is_decode(*sequence) != decodes) continue;
      output.num_tokens += sequence->num_planned;
      output.sequences.push_back(HandOutSequence(sequence, &step));
    }
  }
  fair_.EndStep();
  CHECK_LE(output.num_tokens, config_.max_num_batched_tokens);
  if (output.empty()) return output;
  in_flight_.push_back(std::move(step));
  ++next_step_;
  return output;
}

ScheduledSequence Scheduler::HandOutSequence(Sequence* sequence, StepInFlight* step) {
  const int64_t start = sequence->num_submitted;
  const int64_t num_new = std::exchange(sequence->num_planned, 0);
  const int32_t num_samples = start + num_new == sequence->num_expected() ? 1 : 0;
  const bool input_on_device = start >= sequence->num_tokens();
  const bool row_is_new = sequence->num_blocks_shown == 0;
  CHECK(!input_on_device || num_new == 1);

  ScheduledSequence scheduled{
      .key = sequence->key,
      .epoch = sequence->epoch,
      .row = sequence->row,
      .row_is_new = row_is_new,
      .start = start,
      .num_new = num_new,
      .num_samples = num_samples,
      .input_on_device = input_on_device,
      .wants_prompt_logprobs =
          sequence->OwesPromptLogprobs() && start + 1 < sequence->num_prompt_tokens(),
      .num_prompt_tokens = sequence->num_prompt_tokens(),
      .tokens = sequence->tokens,
      .num_generated = sequence->num_expected() - sequence->num_prompt_tokens(),
      .block_tables = {sequence->table.blocks.begin(), sequence->table.blocks.end()},
      .first_new_block = sequence->num_blocks_shown,
      .state_in = row_is_new ? sequence->table.begins_from : sequence->table.state,
      .state_out = sequence->table.state,
      .request = sequence->request.get(),
      .constraint = num_samples > 0 ? sequence->constraint.get() : nullptr};

  if (!sequence->started) {
    sequence->started = true;
    Emit(SequenceEvent::Kind::kStarted, *sequence).num_cached_tokens = sequence->num_cached_tokens;
  }
  fair_.Serve(sequence, num_new);
  sequence->num_submitted += num_new;
  sequence->num_samples_in_flight += num_samples;
  sequence->num_blocks_shown = sequence->table.blocks[0].size();
  ++sequence->num_steps_in_flight;
  const int32_t num_snapshots = takes_snapshots_ ? TakeSnapshots(sequence, &scheduled, step) : 0;
  step->entries.push_back({sequence, sequence->epoch, start, num_new, num_samples, num_snapshots});
  return scheduled;
}

// Gives the step slots for snapshots, the most useful ones first, as far as there are slots.
// Returns how many.
int32_t Scheduler::TakeSnapshots(Sequence* sequence, ScheduledSequence* scheduled,
                                 StepInFlight* step) {
  const int64_t start = scheduled->start;
  const auto boundaries =
      PlanSnapshots(snapshot_policy_, {.num_prompt_tokens = sequence->num_prompt_tokens(),
                                       .num_shared_tokens = sequence->table.num_paged_tokens,
                                       .start = start,
                                       .num_new = scheduled->num_new});
  auto& snapshots = scheduled->snapshots;
  for (const int64_t boundary : boundaries) {
    const StateSlot slot = blocks_.BeginSnapshot(&sequence->table, sequence->tokens, boundary,
                                                 sequence->request->cache_salt);
    if (slot != kNoState) snapshots.push_back({static_cast<int32_t>(boundary - start), slot});
  }
  // Then the earliest of a sequence is the first to be forgotten.
  std::sort(snapshots.begin(), snapshots.end(),
            [](const auto& a, const auto& b) { return a.num_tokens < b.num_tokens; });
  for (const auto& [num_tokens, slot] : snapshots) {
    step->snapshots.push_back({start + num_tokens, slot});
  }
  return static_cast<int32_t>(snapshots.size());
}

}  // namespace quire
