// Coverage: what a run of the simulator has met. A green run that met none of it would prove
// nothing, so floors are asserted. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quire::sim {

struct Coverage {
  int64_t steps = 0;
  int64_t lookahead_steps = 0;  // scheduled while another was in flight
  int64_t delayed_steps = 0;    // of configurations whose device takes up to three rounds a step
  int64_t window_steps = 0;     // steps of configurations with a windowed group
  int64_t collision_steps = 0;  // steps with a truncated hash
  int64_t shared_steps = 0;     // after which more than one flow wanted more
  int64_t claims = 0;           // of flows that were passed over; each let in a sequence
  int64_t tokens = 0;
  int64_t chunks = 0;
  int64_t inputs_on_device = 0;
  int64_t dropped_results = 0;
  int64_t blocks_behind_window = 0;  // table entries found given back
  int64_t preemptions = 0;
  int64_t allocation_failures = 0;  // a decode lost its turn: no block was left for it
  int64_t step_failures = 0;
  int64_t crashes = 0;  // step failures after which nothing more was committed
  int64_t prefix_hit_tokens = 0;
  int64_t generated_hits = 0;  // resumed or continued sequences that found their own blocks
  int64_t evictions = 0;
  int64_t collision_misses = 0;           // prefixes cut short in runs with a truncated hash
  int64_t possible_hit_tokens = 0;        // what was in the cache at admission, in the other runs
  int64_t found_hit_tokens = 0;           // how much of it was found
  int64_t possible_state_hit_tokens = 0;  // the same of models that keep states
  int64_t found_state_hit_tokens = 0;
  int64_t state_steps = 0;  // of configurations whose model keeps states
  int64_t snapshots = 0;    // that could be found
  int64_t snapshot_hits = 0;
  int64_t snapshot_evictions = 0;  // a slot was needed for something else
  int64_t snapshot_refusals = 0;   // not made or not begun from: no slot to spare
  int64_t recomputed_tokens = 0;   // whose blocks were there, without a snapshot
  int64_t refused_queue_full = 0;
  int64_t refused_share_full = 0;
  int64_t refused_never_fits = 0;
  int64_t finished_stop = 0;
  int64_t finished_length = 0;
  int64_t finished_at_end = 0;    // of a constraint; a part of finished_stop
  int64_t finished_refused = 0;   // a constraint did not accept a token
  int64_t constrained_steps = 0;  // with a row that has a mask
  int64_t late_masks = 0;         // steps whose masks waited for the step before
  int64_t stops_before_min_tokens = 0;
  int64_t prompt_logprobs = 0;
  int64_t stalls = 0;
  int64_t mass_stalls = 0;  // a random half of all readers at once
  int64_t cancelled_waiting = 0;
  int64_t cancelled_mid_prompt = 0;
  int64_t cancelled_decoding = 0;
  int64_t cancelled_final_step = 0;  // with the last sample in flight
  int64_t cancelled_preempted = 0;
  int64_t cancelled_draining = 0;  // preempted, with a step still in flight
  int64_t cancelled_in_flight = 0;
  int64_t cancelled_stalled = 0;

  void Add(const Coverage& other);
  std::string ToString() const;

  // The counters that are too low for a long run of random seeds, each as a sentence.
  std::vector<std::string> BelowFloors() const;
};

}  // namespace quire::sim
