// The checks of a simulation: verdicts on requests, the scheduler's output, its events, its counts.
#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "tests/sim/simulation.h"

namespace quire::sim {
namespace {

std::string Name(const SequenceKey& key) { return absl::StrCat(key.request, "/", key.index); }

}  // namespace

void Simulation::Fail(const std::string& what) {
  if (!violation_.has_value()) violation_ = absl::StrCat("round ", now_, ": ", what);
}

// Never fits, the queue is full, or accepted: computed only from the limits.
void Simulation::CheckVerdict(const Request& request, const absl::Status& status,
                              const SchedulerStats& before, const QueueLoad& held) {
  const SchedulerConfig& config = scenario_.scheduler;
  const int64_t n = request.sampling.n;
  const int64_t num_prompt_tokens = request.prompt.size();
  const int64_t max_num_tokens =
      std::min(num_prompt_tokens + request.stop.max_tokens, config.max_model_len);
  const int64_t max_blocks =
      MostBlocks(scenario_.blocks, max_num_tokens, config.max_num_batched_tokens);
  const uint64_t flow = request.flow.id;
  // A client that has `held` of a queue of `most` may take `num` more when `all` are taken.
  const auto leaves_enough = [](int64_t held, int64_t all, int64_t num, int64_t most) {
    return held + num <= 3 * (most - all - num);
  };
  const auto has_share = [&](const QueueLoad& own, int64_t num_waiting, int64_t num_tokens) {
    if (flow == 0 || (own.num_places == 0 && n == 1)) return true;
    return leaves_enough(own.num_places, num_waiting, n, config.max_num_queued_reqs) &&
           leaves_enough(own.num_tokens, num_tokens, n * num_prompt_tokens,
                         config.max_num_queued_tokens);
  };
  const bool fits = num_prompt_tokens > 0 && request.stop.max_tokens > 0 && n > 0 &&
                    num_prompt_tokens < config.max_model_len &&
                    max_blocks <= scenario_.blocks.num_blocks && n <= config.max_num_queued_reqs &&
                    n * num_prompt_tokens <= config.max_num_queued_tokens && has_share({}, 0, 0);
  const bool has_place =
      before.num_waiting + n <= config.max_num_queued_reqs &&
      before.num_waiting_tokens + n * num_prompt_tokens <= config.max_num_queued_tokens;
  const bool has_room = has_place && has_share(held, before.num_waiting, before.num_waiting_tokens);
  const absl::StatusCode expected = !fits      ? absl::StatusCode::kInvalidArgument
                                    : has_room ? absl::StatusCode::kOk
                                               : absl::StatusCode::kResourceExhausted;
  if (status.code() != expected) {
    return Fail(absl::StrCat("wrong verdict on ", request.id, ": ", status.ToString()));
  }
  coverage_.refused_never_fits += fits ? 0 : 1;
  coverage_.refused_queue_full += fits && !has_place ? 1 : 0;
  coverage_.refused_share_full += fits && has_place && !has_room ? 1 : 0;
}

void Simulation::NoteCancel(const SequenceKey& key, const Tracked& tracked) {
  if (tracked.paused) ++coverage_.cancelled_stalled;
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

void Simulation::NoteStep(const SchedulerOutput& output) {
  if (output.step != newest_step_ + 1 && coverage_.steps > 0) Fail("a step has a wrong number");
  newest_step_ = output.step;
  ++coverage_.steps;
  coverage_.lookahead_steps += runner_.num_in_flight() > 0 ? 1 : 0;
  coverage_.delayed_steps += scenario_.max_delay > 0 ? 1 : 0;
  coverage_.tokens += output.num_tokens;
  coverage_.collision_steps += scenario_.blocks.hash_bits_for_test > 0 ? 1 : 0;
  coverage_.state_steps += scenario_.blocks.num_state_slots > 0 ? 1 : 0;
  const auto& groups = scenario_.blocks.groups;
  coverage_.window_steps += std::any_of(groups.begin(), groups.end(),
                                        [](const KvSpec& g) { return g.sliding_window > 0; });
}

void Simulation::NoteScheduled(uint64_t step, const ScheduledSequence& scheduled) {
  const auto it = tracked_.find(scheduled.key);
  if (it == tracked_.end() || it->second.finished) {
    return Fail(absl::StrCat(Name(scheduled.key), " was scheduled after its end"));
  }
  Tracked& tracked = it->second;
  if (tracked.paused) Fail(absl::StrCat(Name(scheduled.key), " was scheduled while stalled"));
  if (scheduled.row_is_new) {
    NoteNewRow(scheduled, tracked);
    tracked.num_computed = scheduled.start;
  }
  CheckWindows(scheduled, tracked);
  tracked.scheduled = true;
  tracked.cut_short = false;
  tracked.last_step = step;
  tracked.epoch = scheduled.epoch;
  tracked.num_submitted = scheduled.start + scheduled.num_new;
  coverage_.chunks += scheduled.num_new > 1 ? 1 : 0;
  coverage_.inputs_on_device += scheduled.input_on_device ? 1 : 0;
}

void Simulation::NoteNewRow(const ScheduledSequence& scheduled, const Tracked& tracked) {
  const int64_t num_prompt_tokens = tracked.expected.num_prompt_tokens;
  coverage_.generated_hits += scheduled.start > num_prompt_tokens ? 1 : 0;
  if (tracked.scheduled && scheduled.epoch == tracked.epoch) {
    Fail(absl::StrCat(Name(scheduled.key), " begins again in the same epoch"));
  }
  const bool owes_logprobs =
      tracked.request->sampling.prompt_logprobs >= 0 && scheduled.key.index == 0;
  if (owes_logprobs && tracked.num_prompt_scored < num_prompt_tokens - 1) {
    if (scheduled.start != 0) {
      Fail(absl::StrCat(Name(scheduled.key), " skips prompt tokens whose logprobs are asked for"));
    }
    return;
  }
  if (!scenario_.blocks.enable_prefix_caching) return;
  const int64_t possible = runner_.PossibleHit(tracked.expected, tracked.num_seen);
  if (scenario_.blocks.hash_bits_for_test > 0) {
    coverage_.collision_misses += scheduled.start < possible ? 1 : 0;
  } else if (scenario_.blocks.num_state_slots > 0) {
    coverage_.possible_state_hit_tokens += possible;
    coverage_.found_state_hit_tokens += scheduled.start;
  } else {
    coverage_.possible_hit_tokens += possible;
    coverage_.found_hit_tokens += scheduled.start;
  }
}

// Blocks that no query from the next uncomputed token on can see have been given back.
void Simulation::CheckWindows(const ScheduledSequence& scheduled, const Tracked& tracked) {
  for (size_t group = 0; group < scheduled.block_tables.size(); ++group) {
    const int64_t window = scenario_.blocks.groups[group].sliding_window;
    if (window == 0) continue;
    const absl::Span<const BlockId> table = scheduled.block_tables[group];
    const int64_t first_seen = tracked.num_computed - window + 1;
    for (int64_t i = 0; (i + 1) * scenario_.blocks.block_size <= first_seen; ++i) {
      if (table[i] != kNoBlock) {
        return Fail(absl::StrCat(Name(scheduled.key), " keeps block ", i, " of group ", group,
                                 ", which has left the window"));
      }
      ++coverage_.blocks_behind_window;
    }
  }
}

// A sequence that ran as the best-ranked one runs in every step while it is the best-ranked, or in
// the next step when blocks are still on their way back. Between flows ranks change from step to
// step.
void Simulation::CheckBestGetsOn(const SchedulerOutput& output) {
  if (scenario_.requests.num_flows > 1) return;
  const SequenceKey* best = nullptr;
  const auto rank = [this](const SequenceKey& key) {
    return std::tuple(tracked_.at(key).request->priority, key.request, key.index);
  };
  for (const SequenceKey& key : live_) {
    if (tracked_.at(key).paused) continue;
    if (best == nullptr || rank(key) < rank(*best)) best = &key;
  }
  const SequenceKey last_leader = std::exchange(leader_, {});
  if (best == nullptr) return;
  const auto runs = [&](const ScheduledSequence& scheduled) { return scheduled.key == *best; };
  if (std::any_of(output.sequences.begin(), output.sequences.end(), runs)) {
    leader_ = *best;
  } else if (*best == last_leader) {
    if (runner_.num_in_flight() == 0 && !tracked_.at(*best).AllSubmitted()) {
      Fail(absl::StrCat(Name(*best), " does not get on although it has the best rank"));
    }
    leader_ = *best;
  }
}

// A flow wants more when one of its sequences that could run was not run to its last known token.
void Simulation::CheckFairness(const SchedulerOutput& output) {
  absl::flat_hash_set<SequenceKey> satisfied;
  for (const ScheduledSequence& scheduled : output.sequences) {
    if (scheduled.num_samples > 0) satisfied.insert(scheduled.key);
  }
  absl::flat_hash_set<uint64_t> wanting;
  for (const SequenceKey& key : live_) {
    const Tracked& tracked = tracked_.at(key);
    if (tracked.paused || tracked.AllSubmitted() || satisfied.contains(key)) continue;
    wanting.insert(tracked.request->flow.id);
  }
  // What a stalled sequence was let in for holds back the rest of its flow.
  for (const SequenceKey& key : live_) {
    if (tracked_.at(key).paused) wanting.erase(tracked_.at(key).request->flow.id);
  }
  coverage_.shared_steps += wanting.size() > 1 ? 1 : 0;
  const auto violation = fairness_.AfterStep(scheduler_, output, wanting);
  if (violation.has_value()) Fail(*violation);
}

void Simulation::NoteLostTurns(const SchedulerOutput& output) {
  for (const SequenceKey& key : live_) {
    Tracked& tracked = tracked_.at(key);
    if (tracked.last_step == output.step || tracked.paused || tracked.cut_short) continue;
    if (tracked.num_submitted < tracked.expected.num_prompt_tokens || tracked.AllSubmitted()) {
      continue;
    }
    tracked.cut_short = true;
    ++coverage_.allocation_failures;
  }
}

void Simulation::TakeEvents() {
  for (const SequenceEvent& event : scheduler_.TakeEvents()) CheckEvent(event);
  for (const SequenceKey& key : live_) CheckConstraint(key);
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
      if (std::exchange(tracked->started, true)) {
        Fail(absl::StrCat(Name(event.key), " starts twice"));
      }
      // Nothing of it has been committed: it was computed elsewhere, or is not.
      if (event.num_cached_tokens != tracked->num_computed ||
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
  const int64_t position = tracked->num_seen++;
  if (!tracked->started) Fail(absl::StrCat(Name(event.key), " has a token before its start"));
  if (position >= expected.num_reported() || expected.tokens[position] != event.token) {
    return Fail(absl::StrCat(Name(event.key), " has a wrong token at ", position));
  }
  const bool wants_logprobs = tracked->request->sampling.logprobs >= 0;
  if (wants_logprobs != (event.logprobs != nullptr) ||
      (wants_logprobs && event.logprobs->logprob != TokenLogprob(expected.prints[position]))) {
    return Fail(absl::StrCat(Name(event.key), " has a wrong logprob at ", position));
  }
  const auto& stops = tracked->request->stop.eos_token_ids;
  const bool is_last = position + 1 == static_cast<int64_t>(expected.tokens.size());
  if (!is_last && std::find(stops.begin(), stops.end(), event.token) != stops.end()) {
    ++coverage_.stops_before_min_tokens;
  }
}

void Simulation::CheckPromptLogprobs(const SequenceEvent& event, Tracked* tracked) {
  const ExpectedStream& expected = tracked->expected;
  if (tracked->request->sampling.prompt_logprobs < 0 || event.key.index > 0) {
    return Fail(absl::StrCat(Name(event.key), " has prompt logprobs that nobody asked for"));
  }
  if (event.prompt_logprobs.empty()) Fail("an event without prompt logprobs");
  for (const auto& [token, logprobs] : event.prompt_logprobs) {
    const int64_t position = ++tracked->num_prompt_scored;
    if (position >= expected.num_prompt_tokens || expected.tokens[position] != token ||
        logprobs.logprob != TokenLogprob(expected.prints[position])) {
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
  const auto num_preemptions = static_cast<uint64_t>(event.num_preemptions);
  if (tracked->end_reason != FinishReason::kNone) {
    if (event.reason != tracked->end_reason || event.matched_token != -1 || !event.error.ok()) {
      Fail(absl::StrCat(Name(event.key), " does not end as it was told to"));
    }
    // Its last step had an earlier epoch, so it was preempted and had not come back.
    const bool is_preempted = num_preemptions > tracked->epoch;
    coverage_.cancelled_preempted += is_preempted ? 1 : 0;
    coverage_.cancelled_draining += is_preempted && runner_.IsInFlight(event.key) ? 1 : 0;
    return;
  }
  const bool is_refused = expected.reason == FinishReason::kError;
  if (event.reason != expected.reason || event.matched_token != expected.matched_token ||
      absl::IsInvalidArgument(event.error) != is_refused || event.is_broken) {
    Fail(absl::StrCat(Name(event.key), " ends for a wrong reason"));
  }
  if (tracked->num_seen != expected.num_reported()) {
    Fail(absl::StrCat(Name(event.key), " ends after ", tracked->num_seen, " tokens of ",
                      expected.num_reported()));
  }
  if (num_preemptions != tracked->epoch) {
    Fail(absl::StrCat(Name(event.key), " counts ", num_preemptions, " preemptions of ",
                      tracked->epoch));
  }
  if (tracked->request->sampling.prompt_logprobs >= 0 && event.key.index == 0 &&
      tracked->num_prompt_scored != expected.num_prompt_tokens - 1) {
    Fail(absl::StrCat(Name(event.key), " lacks prompt logprobs"));
  }
  ++(event.reason == FinishReason::kStop    ? coverage_.finished_stop
     : event.reason == FinishReason::kError ? coverage_.finished_refused
                                            : coverage_.finished_length);
  const bool is_stop = event.reason == FinishReason::kStop;
  coverage_.finished_at_end += is_stop && event.matched_token < 0 ? 1 : 0;
  workload_.Remember(expected.tokens, tracked->request->cache_salt);
}

// A constraint has accepted the generated tokens of its sequence, neither more nor fewer, and lives
// at least as long as the last step that may ask it.
void Simulation::CheckConstraint(const SequenceKey& key) {
  const Tracked& tracked = tracked_.at(key);
  if (tracked.constraint == nullptr) return;
  const ConstraintLog& log = *tracked.constraint;
  if (!log.misuse.empty()) Fail(absl::StrCat(Name(key), " gives its constraint ", log.misuse));
  if (!log.is_alive) Fail(absl::StrCat(Name(key), " has lost its constraint"));
  const auto num_accepted = static_cast<int64_t>(log.accepted.size());
  const int64_t num_generated = tracked.num_seen - tracked.expected.num_prompt_tokens;
  // Each token was compared when it came.
  if (num_accepted != num_generated ||
      (num_accepted > 0 && log.accepted.back() != tracked.expected.tokens[tracked.num_seen - 1])) {
    Fail(absl::StrCat(Name(key), " has ", num_generated, " generated tokens, and its constraint ",
                      num_accepted));
  }
}

// With nothing in flight everybody either waits or has a row, and only they hold blocks.
void Simulation::CheckStats() {
  if (runner_.num_in_flight() > 0) return;
  const SchedulerStats stats = scheduler_.stats();
  int64_t num_stalled = 0;
  int64_t num_prompt_tokens = 0;
  for (const SequenceKey& key : live_) {
    const Tracked& tracked = tracked_.at(key);
    num_stalled += tracked.paused ? 1 : 0;
    num_prompt_tokens += tracked.expected.num_prompt_tokens;
  }
  const auto num_live = static_cast<int64_t>(live_.size());
  if (stats.num_waiting + stats.num_running != num_live || stats.num_paused != num_stalled) {
    Fail(absl::StrCat("stats: ", stats.num_waiting, " waiting, ", stats.num_running, " running, ",
                      stats.num_paused, " paused of ", num_live));
  }
  if (stats.num_running == 0 && stats.num_waiting_tokens != num_prompt_tokens) {
    Fail(absl::StrCat("stats: ", stats.num_waiting_tokens, " waiting tokens"));
  }
  if (stats.num_running == 0 && stats.blocks.num_held != 0) {
    Fail(absl::StrCat(stats.blocks.num_held, " blocks leaked"));
  }
  if (stats.num_running == 0 && stats.blocks.states.num_live != 0) {
    Fail(absl::StrCat(stats.blocks.states.num_live, " states leaked"));
  }
  if (live_.empty() && scheduler_.HasUnfinished()) Fail("requests are left of nobody");
}

void Simulation::Forget() {
  const auto is_gone = [this](const SequenceKey& key) {
    if (runner_.IsInFlight(key)) return false;
    const auto it = tracked_.find(key);
    if (it->second.constraint != nullptr && it->second.constraint->is_alive) {
      Fail(absl::StrCat(Name(key), " leaves its constraint behind"));
    }
    tracked_.erase(it);
    return true;
  };
  ended_.erase(std::remove_if(ended_.begin(), ended_.end(), is_gone), ended_.end());
}

bool Simulation::SomebodyCanRun() const {
  return std::any_of(live_.begin(), live_.end(),
                     [this](const SequenceKey& key) { return !tracked_.at(key).paused; });
}

}  // namespace quire::sim
