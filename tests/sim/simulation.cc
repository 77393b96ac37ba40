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
    : Simulation(options, ScenarioOf(options.seed)) {}

Simulation::Simulation(const SimulationOptions& options, const Scenario& scenario)
    : options_(options),
      random_(options.seed * 2 + 1),
      scenario_(scenario),
      workload_(scenario.scheduler, options.seed),
      scheduler_(scenario.scheduler, scenario.blocks),
      runner_(
          scenario.scheduler, scenario.blocks,
          [this](const SequenceKey& key) -> const ExpectedStream& {
            return tracked_.at(key).expected;
          },
          [this](std::string what) { Fail(std::move(what)); }) {
  if (options.fault != Fault::kNone) runner_.PlantFault(options.fault, random_.Between(1, 60));
}

void Simulation::Fail(std::string what) {
  if (!violation_.has_value()) violation_ = absl::StrCat("step ", now_, ": ", what);
}

std::string Simulation::Describe() const {
  const SchedulerConfig& config = scenario_.scheduler;
  std::string text =
      absl::StrCat("max_num_seqs ", config.max_num_seqs, ", budget ", config.max_num_batched_tokens,
                   ", partial prefills ", config.max_num_partial_prefills, ", max_model_len ",
                   config.max_model_len, ", blocks ", scenario_.blocks.num_blocks, " of ",
                   scenario_.blocks.block_size, ", hash bits ", scenario_.blocks.hash_bits_for_test,
                   ", lookahead ", scenario_.lookahead, ", windows");
  for (const KvGroupConfig& group : scenario_.blocks.groups) {
    absl::StrAppend(&text, " ", group.sliding_window);
  }
  return text;
}

std::optional<std::string> Simulation::Run() {
  for (int64_t i = 0; i < options_.num_steps && !violation_.has_value(); ++i) Step();
  if (!violation_.has_value()) Drain();
  if (!violation_.has_value()) CheckEmpty();
  const SchedulerStats stats = scheduler_.stats();
  coverage_.preemptions += stats.num_preemptions;
  coverage_.prefix_hit_tokens += stats.blocks.prefix_hit_tokens;
  coverage_.evictions += stats.blocks.num_evictions;
  return violation_;
}

void Simulation::Step() {
  ++now_;
  if (random_.OneIn(scenario_.arrival_period)) Arrive();
  if (options_.cancels && random_.OneIn(12)) CancelSomebody();
  if (options_.pauses && random_.OneIn(10)) PauseSomebody();
  if (random_.OneIn(200)) scheduler_.FlushPrefixCache();
  const bool scheduled = ScheduleAndSubmit();
  // Between Schedule and Commit, with the step in flight.
  if (options_.cancels && random_.OneIn(12)) CancelSomebody();
  if (options_.pauses && random_.OneIn(20)) PauseSomebody();
  while (runner_.num_in_flight() > (scheduled ? scenario_.lookahead : 0)) CommitOldest();
}

void Simulation::Arrive() {
  std::shared_ptr<const Request> request = workload_.NextRequest();
  const absl::Status status = scheduler_.Add(request);
  const int64_t max_model_len = scenario_.scheduler.max_model_len;
  const int64_t num_prompt_tokens = request->prompt.size();
  const int64_t max_num_tokens =
      std::min(num_prompt_tokens + request->stop.max_tokens, max_model_len);
  const int64_t max_blocks =
      BlockManager(scenario_.blocks)
          .MaxBlocksFor(max_num_tokens, 2 * scenario_.scheduler.max_num_batched_tokens);
  const bool fits =
      num_prompt_tokens < max_model_len && max_blocks <= scenario_.blocks.num_blocks &&
      request->sampling.n * num_prompt_tokens <= scenario_.scheduler.max_waiting_tokens;
  if (absl::IsInvalidArgument(status) == fits) {
    return Fail(absl::StrCat("wrong verdict whether it can ever fit: ", status.ToString()));
  }
  if (!fits) ++coverage_.refused_never_fits;
  if (absl::IsResourceExhausted(status)) {
    ++coverage_.refused_queue_full;
    if (scheduler_.stats().num_waiting == 0) Fail("an empty queue is called full");
  }
  if (!status.ok()) return;
  for (int32_t index = 0; index < request->sampling.n; ++index) {
    const SequenceKey key{request->id, index};
    Tracked tracked;
    tracked.request = request;
    tracked.expected = Expect(*request, index, max_model_len);
    tracked.num_seen = num_prompt_tokens;
    tracked_.emplace(key, std::move(tracked));
    live_.push_back(key);
  }
}

const SequenceKey* Simulation::AnyKey() {
  if (live_.empty()) return nullptr;
  return &live_[random_.Between(0, live_.size() - 1)];
}

void Simulation::CancelSomebody() {
  const SequenceKey* any = AnyKey();
  if (any == nullptr) return;
  const SequenceKey key = *any;
  const bool whole_request = random_.OneIn(2);
  for (const SequenceKey& other : live_) {
    if (other == key || (whole_request && other.request == key.request)) {
      NoteCancel(other, tracked_.at(other));
      tracked_.at(other).cancelled = true;
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

void Simulation::NoteCancel(const SequenceKey& key, const Tracked& tracked) {
  if (tracked.paused) ++coverage_.cancelled_paused;
  if (runner_.IsInFlight(key)) {
    ++coverage_.cancelled_in_flight;
    const auto length = static_cast<int64_t>(tracked.expected.tokens.size());
    if (tracked.num_submitted >= length - 1) ++coverage_.cancelled_final_step;
  }
  if (!tracked.scheduled) {
    ++coverage_.cancelled_waiting;
  } else if (tracked.num_submitted < tracked.expected.num_prompt_tokens) {
    ++coverage_.cancelled_mid_prompt;
  } else {
    ++coverage_.cancelled_decoding;
  }
}

void Simulation::PauseSomebody() {
  const SequenceKey* key = AnyKey();
  if (key == nullptr) return;
  Tracked& tracked = tracked_.at(*key);
  tracked.paused = !tracked.paused;
  coverage_.pauses += tracked.paused ? 1 : 0;
  scheduler_.SetPaused(*key, tracked.paused);
}

bool Simulation::ScheduleAndSubmit() {
  const SchedulerOutput output = scheduler_.Schedule();
  scheduler_.CheckInvariants();
  if (output.empty()) {
    if (runner_.num_in_flight() == 0 && SomebodyCanRun()) Fail("nobody runs although they could");
    TakeEvents();
    return false;
  }
  ++coverage_.steps;
  coverage_.lookahead_steps += runner_.num_in_flight() > 0 ? 1 : 0;
  coverage_.tokens += output.num_tokens;
  coverage_.collision_steps += scenario_.blocks.hash_bits_for_test > 0 ? 1 : 0;
  const auto& groups = scenario_.blocks.groups;
  coverage_.window_steps += std::any_of(
      groups.begin(), groups.end(), [](const KvGroupConfig& g) { return g.sliding_window > 0; });
  for (const ScheduledSequence& scheduled : output.sequences) NoteScheduled(scheduled);
  runner_.Submit(output, /*run_now=*/random_.OneIn(2));
  TakeEvents();
  return true;
}

void Simulation::NoteScheduled(const ScheduledSequence& scheduled) {
  const auto it = tracked_.find(scheduled.key);
  if (it == tracked_.end() || it->second.finished) {
    return Fail(absl::StrCat(Name(scheduled.key), " was scheduled after its end"));
  }
  Tracked& tracked = it->second;
  if (tracked.paused) Fail(absl::StrCat(Name(scheduled.key), " was scheduled while paused"));
  if (scheduled.row_is_new) {
    const int64_t num_prompt_tokens = tracked.expected.num_prompt_tokens;
    coverage_.generated_hits += scheduled.start > num_prompt_tokens ? 1 : 0;
    if (tracked.scheduled && scheduled.epoch == tracked.epoch) {
      Fail(absl::StrCat(Name(scheduled.key), " begins again in the same epoch"));
    }
    if (tracked.request->sampling.prompt_logprobs >= 0 && scheduled.key.index == 0 &&
        !tracked.scheduled && scheduled.start != 0) {
      Fail(absl::StrCat(Name(scheduled.key), " skips prompt tokens whose logprobs are asked for"));
    }
  }
  tracked.scheduled = true;
  tracked.epoch = scheduled.epoch;
  tracked.num_submitted = scheduled.start + scheduled.num_new;
  coverage_.chunks += scheduled.num_new > 1 ? 1 : 0;
  coverage_.inputs_on_device += scheduled.input_on_device ? 1 : 0;
}

void Simulation::CommitOldest() {
  StepResult result = runner_.Wait();
  if (violation_.has_value()) return;  // the results are wrong: do not trip over them
  for (const SequenceResult& sequence : result.sequences) {
    const Tracked& tracked = tracked_.at(sequence.key);
    if (tracked.finished || tracked.epoch != sequence.epoch) ++coverage_.dropped_results;
  }
  scheduler_.Commit(std::move(result));
  scheduler_.CheckInvariants();
  TakeEvents();
}

void Simulation::TakeEvents() {
  for (const SequenceEvent& event : scheduler_.TakeEvents()) CheckEvent(event);
  Forget();
}

void Simulation::CheckEvent(const SequenceEvent& event) {
  const auto it = tracked_.find(event.key);
  if (it == tracked_.end() || it->second.finished) {
    return Fail(absl::StrCat(Name(event.key), " has an event after its end"));
  }
  Tracked* tracked = &it->second;
  switch (event.kind) {
    case SequenceEvent::Kind::kStarted:
      if (std::exchange(tracked->started, true))
        Fail(absl::StrCat(Name(event.key), " starts twice"));
      if (event.num_cached_tokens < 0 ||
          event.num_cached_tokens >= tracked->expected.num_prompt_tokens) {
        Fail(absl::StrCat(Name(event.key), " has ", event.num_cached_tokens, " cached tokens"));
      }
      break;
    case SequenceEvent::Kind::kToken:
      CheckToken(event, tracked);
      break;
    case SequenceEvent::Kind::kPromptLogprobs:
      CheckPromptLogprobs(event, tracked);
      break;
    case SequenceEvent::Kind::kFinished:
      CheckFinished(event, tracked);
      break;
  }
}

void Simulation::CheckToken(const SequenceEvent& event, Tracked* tracked) {
  const ExpectedStream& expected = tracked->expected;
  if (!tracked->started) Fail(absl::StrCat(Name(event.key), " has a token before its start"));
  if (tracked->num_seen >= static_cast<int64_t>(expected.tokens.size()) ||
      expected.tokens[tracked->num_seen] != event.token) {
    return Fail(absl::StrCat(Name(event.key), " has a wrong token at ", tracked->num_seen));
  }
  ++tracked->num_seen;
  const auto& stops = tracked->request->stop.eos_token_ids;
  const bool is_last = tracked->num_seen == static_cast<int64_t>(expected.tokens.size());
  if (!is_last && std::find(stops.begin(), stops.end(), event.token) != stops.end()) {
    ++coverage_.stops_before_min_tokens;
  }
}

void Simulation::CheckPromptLogprobs(const SequenceEvent& event, Tracked* tracked) {
  const ExpectedStream& expected = tracked->expected;
  for (const auto& [token, logprobs] : event.prompt_logprobs) {
    const int64_t position = ++tracked->num_prompt_scored;
    if (position >= expected.num_prompt_tokens || expected.tokens[position] != token ||
        logprobs.logprob != PromptLogprob(expected.prints[position])) {
      return Fail(absl::StrCat(Name(event.key), " has a wrong prompt logprob at ", position));
    }
    ++coverage_.prompt_logprobs;
  }
}

void Simulation::CheckFinished(const SequenceEvent& event, Tracked* tracked) {
  const ExpectedStream& expected = tracked->expected;
  tracked->finished = true;
  live_.erase(std::find(live_.begin(), live_.end(), event.key));
  ended_.push_back(event.key);
  if (tracked->cancelled) {
    if (event.reason != FinishReason::kAbort) Fail(absl::StrCat(Name(event.key), " not aborted"));
    // Its last step had an earlier epoch, so it was preempted and had not come back.
    if (static_cast<uint64_t>(event.num_preemptions) > tracked->epoch) {
      ++coverage_.cancelled_preempted;
    }
    return;
  }
  if (event.reason != expected.reason || event.matched_token != expected.matched_token) {
    Fail(absl::StrCat(Name(event.key), " ends for a wrong reason"));
  }
  if (tracked->num_seen != static_cast<int64_t>(expected.tokens.size())) {
    Fail(absl::StrCat(Name(event.key), " ends after ", tracked->num_seen, " tokens of ",
                      expected.tokens.size()));
  }
  if (tracked->request->sampling.prompt_logprobs >= 0 && event.key.index == 0 &&
      tracked->num_prompt_scored != expected.num_prompt_tokens - 1) {
    Fail(absl::StrCat(Name(event.key), " lacks prompt logprobs"));
  }
  ++(event.reason == FinishReason::kStop ? coverage_.finished_stop : coverage_.finished_length);
  workload_.Remember(expected.tokens, tracked->request->cache_salt);
}

void Simulation::Forget() {
  const auto is_gone = [this](const SequenceKey& key) {
    if (runner_.IsInFlight(key)) return false;
    tracked_.erase(key);
    return true;
  };
  ended_.erase(std::remove_if(ended_.begin(), ended_.end(), is_gone), ended_.end());
}

bool Simulation::SomebodyCanRun() const {
  return std::any_of(live_.begin(), live_.end(),
                     [this](const SequenceKey& key) { return !tracked_.at(key).paused; });
}

// No more arrivals or cancels: everybody must end, within a bound.
void Simulation::Drain() {
  for (const SequenceKey& key : live_) {
    tracked_.at(key).paused = false;
    scheduler_.SetPaused(key, false);
  }
  int64_t steps_left = 100;  // one step per token, each token run twice at worst, and then some
  for (const SequenceKey& key : live_) steps_left += 20 * tracked_.at(key).expected.tokens.size();
  while (scheduler_.HasUnfinished() && !violation_.has_value()) {
    ++now_;
    if (--steps_left < 0) return Fail("the remaining sequences do not end");
    const bool scheduled = ScheduleAndSubmit();
    while (runner_.num_in_flight() > (scheduled ? scenario_.lookahead : 0)) CommitOldest();
  }
}

void Simulation::CheckEmpty() {
  const SchedulerStats stats = scheduler_.stats();
  if (!live_.empty()) Fail(absl::StrCat(live_.size(), " sequences never ended"));
  if (stats.blocks.num_held != 0) Fail(absl::StrCat(stats.blocks.num_held, " blocks leaked"));
  if (stats.num_waiting + stats.num_waiting_tokens + stats.num_running + stats.num_paused != 0) {
    Fail("the queues are not empty");
  }
}

}  // namespace quire::sim
