// What happens: arrivals, cancels, stalls, device failures, steps and their completion.
#include "tests/sim/simulation.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quire::sim {
namespace {

std::string Name(const SequenceKey& key) { return absl::StrCat(key.request, "/", key.index); }

Scenario ScenarioOf(uint64_t seed) {
  Random random(seed);
  return RandomScenario(&random);
}

}  // namespace

Simulation::Simulation(const SimulationOptions& options)
    : options_(options),
      random_(options.seed * 2 + 1),
      scenario_(ScenarioOf(options.seed)),
      workload_(scenario_.scheduler, options.seed, scenario_.requests),
      scheduler_(scenario_.scheduler, scenario_.blocks),
      runner_(
          scenario_.scheduler, scenario_.blocks,
          [this](const SequenceKey& key) -> const ExpectedStream& {
            return tracked_.at(key).expected;
          },
          [this](const std::string& what) { Fail(what); }),
      fairness_(scenario_.scheduler) {
  if (options.fault != Fault::kNone) runner_.PlantFault(options.fault, random_.Between(1, 60));
}

std::string Simulation::Describe() const {
  const SchedulerConfig& config = scenario_.scheduler;
  std::string text = absl::StrCat(
      "max_num_seqs ", config.max_num_seqs, ", budget ", config.max_num_batched_tokens,
      ", partial prefills ", config.max_num_partial_prefills, ", passed ", config.max_num_passed,
      ", max_model_len ", config.max_model_len, ", blocks ", scenario_.blocks.num_blocks, " of ",
      scenario_.blocks.block_size, ", hash bits ", scenario_.blocks.hash_bits_for_test, ", flows ",
      scenario_.requests.num_flows, ", lookahead ", scenario_.lookahead, ", delay ",
      scenario_.max_delay, ", states ", scenario_.blocks.num_state_slots, " by ",
      scenario_.blocks.snapshot_grid, ", windows");
  for (const KvSpec& group : scenario_.blocks.groups) {
    absl::StrAppend(&text, " ", group.sliding_window);
  }
  return text;
}

std::optional<std::string> Simulation::Run() {
  for (int64_t i = 0; i < options_.num_rounds && !violation_.has_value() && !crashed_; ++i) Round();
  if (!violation_.has_value() && !crashed_) Drain();
  const SchedulerStats stats = scheduler_.stats();
  coverage_.preemptions += stats.num_preemptions;
  coverage_.claims += scheduler_.fairness().num_claims();
  coverage_.prefix_hit_tokens += stats.blocks.prefix_hit_tokens;
  coverage_.evictions += stats.blocks.num_evictions;
  const StateStats& states = stats.blocks.states;
  coverage_.snapshots += states.num_made;
  coverage_.snapshot_evictions += states.num_evicted;
  coverage_.snapshot_refusals += states.num_refused;
  coverage_.snapshot_hits += states.num_hits;
  coverage_.recomputed_tokens += stats.blocks.num_recomputed_tokens;
  return violation_;
}

void Simulation::Round() {
  ++now_;
  if (random_.OneIn(scenario_.arrival_period)) Arrive();
  if (scenario_.disturbed && random_.OneIn(15)) CancelSomebody();
  if (scenario_.disturbed && random_.OneIn(4)) StallSomebody();
  if (random_.OneIn(50)) CancelNobody();
  if (random_.OneIn(200)) scheduler_.FlushPrefixCache();
  if (scenario_.failure_period > 0 && random_.OneIn(scenario_.failure_period)) return FailDevice();
  const bool may_schedule = runner_.num_in_flight() <= scenario_.lookahead;
  const bool scheduled = may_schedule && ScheduleAndSubmit();
  // Between Schedule and Commit, with the step in flight.
  if (scenario_.disturbed && random_.OneIn(9)) CancelSomebody();
  if (scenario_.disturbed && random_.OneIn(8)) StallSomebody();
  CommitCompleted(scheduled);
}

void Simulation::Arrive() {
  std::shared_ptr<const Request> request = workload_.NextRequest();
  const SchedulerStats before = scheduler_.stats();
  const QueueLoad held = scheduler_.queue().HeldBy(request->flow.id);
  absl::Status status = scheduler_.Check(*request);
  if (status.ok()) status = scheduler_.Add(request);
  CheckVerdict(*request, status, before, held);
  if (!status.ok()) return;
  const int64_t max_model_len = scenario_.scheduler.max_model_len;
  const int64_t num_prompt_tokens = request->prompt.size();
  for (int32_t index = 0; index < request->sampling.n; ++index) {
    const SequenceKey key{request->id, index};
    Tracked tracked;
    tracked.request = request;
    tracked.expected = Expect(*request, index, max_model_len);
    if (request->constraint != nullptr) {
      const auto& constraints = static_cast<const SimConstraints&>(*request->constraint);
      tracked.constraint = constraints.logs().at(index);
    }
    tracked.max_num_tokens = std::min(num_prompt_tokens + request->stop.max_tokens, max_model_len);
    tracked.num_seen = num_prompt_tokens;
    tracked_.emplace(key, std::move(tracked));
    live_.push_back(key);
  }
}

const SequenceKey* Simulation::AnyKey() {
  if (live_.empty()) return nullptr;
  return &live_[random_.Between(0, live_.size() - 1)];
}

const SequenceKey* Simulation::AnyKeyWhere(const std::function<bool(const SequenceKey&)>& holds) {
  if (live_.empty()) return nullptr;
  const auto start = live_.begin() + random_.Between(0, live_.size() - 1);
  auto it = std::find_if(start, live_.end(), holds);
  if (it == live_.end()) it = std::find_if(live_.begin(), start, holds);
  return it != live_.end() && holds(*it) ? &*it : nullptr;
}

// Now and then anybody; else one in a rare state, if there is one.
const SequenceKey* Simulation::KeyToCancel() {
  const auto has_last_sample_in_flight = [this](const SequenceKey& key) {
    const Tracked& tracked = tracked_.at(key);
    return tracked.num_submitted + 1 >= static_cast<int64_t>(tracked.expected.tokens.size()) &&
           runner_.IsInFlight(key);
  };
  const auto was_pushed_out = [this](const SequenceKey& key) {
    const Tracked& tracked = tracked_.at(key);
    return tracked.scheduled && !tracked.paused && tracked.last_step != newest_step_;
  };
  const SequenceKey* key = nullptr;
  switch (random_.Between(0, 6)) {
    case 0:
    case 1:
    case 2:
      key = AnyKeyWhere(has_last_sample_in_flight);
      break;
    case 3:
      key = AnyKeyWhere(was_pushed_out);
      break;
    case 4:
      key = AnyKeyWhere([&](const SequenceKey& candidate) {
        return was_pushed_out(candidate) && runner_.IsInFlight(candidate);
      });
      break;
    default:
      break;
  }
  return key != nullptr ? key : AnyKey();
}

void Simulation::CancelSomebody() {
  const SequenceKey* chosen = KeyToCancel();
  if (chosen == nullptr) return;
  const SequenceKey key = *chosen;
  const bool whole_request = random_.OneIn(2);
  for (const SequenceKey& other : live_) {
    if (other == key || (whole_request && other.request == key.request)) {
      Tracked& tracked = tracked_.at(other);
      NoteCancel(other, tracked);
      tracked.end_reason = FinishReason::kAbort;
    }
  }
  if (whole_request) {
    scheduler_.Cancel(key.request, FinishReason::kAbort);
  } else {
    scheduler_.CancelSequence(key, FinishReason::kAbort);
  }
  scheduler_.CheckInvariants();
  TakeEvents();
  if (std::find(live_.begin(), live_.end(), key) != live_.end()) {
    Fail(absl::StrCat(Name(key), " survives its cancellation"));
  }
}

// Ids that are not, or no more, in use.
void Simulation::CancelNobody() {
  const SequenceKey* key = AnyKey();
  const RequestId id = key != nullptr ? key->request : 1;
  const int32_t n = key != nullptr ? tracked_.at(*key).request->sampling.n : 0;
  scheduler_.Cancel(id + 1'000'000, FinishReason::kAbort);
  for (const int32_t index : {-1, n}) {
    scheduler_.CancelSequence({id, index}, FinishReason::kAbort);
    scheduler_.SetPaused({id, index}, true);
  }
  TakeEvents();
}

void Simulation::SetStalled(const SequenceKey& key, bool stalled) {
  Tracked& tracked = tracked_.at(key);
  coverage_.stalls += stalled && !tracked.paused ? 1 : 0;
  tracked.paused = stalled;
  scheduler_.SetPaused(key, stalled);
}

// A reader stalls or reads on; now and then a random half of them stalls, to be released one by one
// in random order.
void Simulation::StallSomebody() {
  if (live_.empty()) return;
  if (random_.OneIn(15)) {
    ++coverage_.mass_stalls;
    for (const SequenceKey& other : live_) SetStalled(other, random_.OneIn(2));
    return;
  }
  const SequenceKey* key = AnyKeyWhere([this](const SequenceKey& candidate) {
    return tracked_.at(candidate).last_step == newest_step_;
  });
  if (key == nullptr || random_.OneIn(2)) key = AnyKey();
  SetStalled(*key, !tracked_.at(*key).paused);
}

// A device error: what is in flight is lost, and everybody is told. Either nothing follows, as in
// the engine, or the device comes back; then nothing may be left of those who were there.
void Simulation::FailDevice() {
  ++coverage_.step_failures;
  runner_.LoseSteps();
  const std::vector<SequenceKey> everybody = live_;
  for (const SequenceKey& key : everybody) tracked_.at(key).end_reason = FinishReason::kError;
  for (const SequenceKey& key : everybody) scheduler_.Cancel(key.request, FinishReason::kError);
  scheduler_.CheckInvariants();
  TakeEvents();
  if (!live_.empty()) Fail(absl::StrCat(live_.size(), " sequences survive a device error"));
  if (random_.OneIn(8)) {
    ++coverage_.crashes;
    crashed_ = true;
    return;
  }
  while (runner_.num_in_flight() > 0) CommitOldest();
  CheckStats();
}

bool Simulation::ScheduleAndSubmit() {
  fairness_.BeforeStep(scheduler_);
  const SchedulerOutput output = scheduler_.Schedule();
  scheduler_.CheckInvariants();
  CheckBestGetsOn(output);
  CheckFairness(output);
  if (output.empty()) {
    if (runner_.num_in_flight() == 0 && SomebodyCanRun()) Fail("nobody runs although they could");
    TakeEvents();
    return false;
  }
  NoteStep(output);
  for (const ScheduledSequence& scheduled : output.sequences) NoteScheduled(output.step, scheduled);
  NoteLostTurns(output);
  runner_.Submit(output);
  ready_at_.push_back(now_ + random_.Between(0, scenario_.max_delay));
  TakeEvents();
  Sample(output);
  return true;
}

// As in the engine: a mask that depends on a token of the step before waits until that step has
// been committed.
void Simulation::Sample(const SchedulerOutput& output) {
  const auto is_limited = [](const ScheduledSequence& scheduled) {
    return scheduled.constraint != nullptr;
  };
  const auto needs_result = [&](const ScheduledSequence& scheduled) {
    return is_limited(scheduled) && scheduled.input_on_device;
  };
  const auto begin = output.sequences.begin(), end = output.sequences.end();
  coverage_.constrained_steps += std::any_of(begin, end, is_limited) ? 1 : 0;
  if (std::any_of(begin, end, needs_result)) {
    ++coverage_.late_masks;
    while (runner_.num_in_flight() > 1) CommitOldest();
  }
  for (const ScheduledSequence& scheduled : output.sequences) CheckConstraint(scheduled.key);
  if (!violation_.has_value()) runner_.Sample(/*run_now=*/random_.OneIn(2));
}

// Without a delay the oldest step is waited for, as in the engine, unless it may run on; with one,
// it is complete when its time has come.
void Simulation::CommitCompleted(bool scheduled) {
  const int64_t may_run_on = scheduled ? scenario_.lookahead : 0;
  while (runner_.num_in_flight() > 0) {
    const bool is_due =
        scenario_.max_delay == 0 ? runner_.num_in_flight() > may_run_on : ready_at_.front() <= now_;
    if (!is_due) return;
    CommitOldest();
  }
}

void Simulation::CommitOldest() {
  std::vector<FakeRunner::Finished> finished;
  StepResult result = runner_.Wait(&finished);
  ready_at_.pop_front();
  if (violation_.has_value()) return;  // the results are wrong: do not trip over them
  for (const FakeRunner::Finished& sequence : finished) {
    CheckConstraint(sequence.key);
    Tracked& tracked = tracked_.at(sequence.key);
    if (tracked.finished || tracked.epoch != sequence.epoch) {
      ++coverage_.dropped_results;
    } else {
      tracked.num_computed = sequence.end;
    }
  }
  scheduler_.Commit(std::move(result));
  scheduler_.CheckInvariants();
  TakeEvents();
  CheckStats();
}

// No more arrivals or cancels: everybody must end, within a bound.
void Simulation::Drain() {
  int64_t rounds_left = 100;  // one step per token, each token run twice at worst, and then some
  for (const SequenceKey& key : live_) {
    SetStalled(key, false);
    rounds_left += 20 * tracked_.at(key).expected.tokens.size();
  }
  rounds_left *= scenario_.max_delay + 1;
  while ((scheduler_.HasUnfinished() || runner_.num_in_flight() > 0) && !violation_.has_value()) {
    ++now_;
    if (--rounds_left < 0) return Fail("the remaining sequences do not end");
    const bool may_schedule = runner_.num_in_flight() <= scenario_.lookahead;
    CommitCompleted(may_schedule && ScheduleAndSubmit());
  }
  if (!violation_.has_value()) CheckStats();
  if (!live_.empty()) Fail(absl::StrCat(live_.size(), " sequences never ended"));
}

}  // namespace quire::sim
