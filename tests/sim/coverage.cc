#include "tests/sim/coverage.h"

#include "absl/strings/str_cat.h"

namespace quire::sim {
namespace {

struct Counter {
  const char* name;
  int64_t Coverage::*value;
  double floor_per_step;  // 0: none
};

// Floors are about half of what is seen; those of preemptions, cancels, failures, collisions and
// stalls are not below the targets: 0.1, 0.01, 0.001, 0.001 and 0.01.
constexpr Counter kCounters[] = {
    {"steps", &Coverage::steps, 0},
    {"lookahead_steps", &Coverage::lookahead_steps, 0.1},
    {"delayed_steps", &Coverage::delayed_steps, 0.05},
    {"window_steps", &Coverage::window_steps, 0.2},
    {"collision_steps", &Coverage::collision_steps, 0.1},
    {"shared_steps", &Coverage::shared_steps, 0.1},
    {"claims", &Coverage::claims, 0.0001},
    {"tokens", &Coverage::tokens, 2},
    {"chunks", &Coverage::chunks, 0.05},
    {"inputs_on_device", &Coverage::inputs_on_device, 0.1},
    {"dropped_results", &Coverage::dropped_results, 0.01},
    {"blocks_behind_window", &Coverage::blocks_behind_window, 0.5},
    {"preemptions", &Coverage::preemptions, 0.1},
    {"allocation_failures", &Coverage::allocation_failures, 0.01},
    {"step_failures", &Coverage::step_failures, 0.001},
    {"crashes", &Coverage::crashes, 0.0001},
    {"prefix_hit_tokens", &Coverage::prefix_hit_tokens, 0.3},
    {"generated_hits", &Coverage::generated_hits, 0.002},
    {"evictions", &Coverage::evictions, 0.1},
    {"collision_misses", &Coverage::collision_misses, 0.001},
    {"possible_hit_tokens", &Coverage::possible_hit_tokens, 0.2},
    {"found_hit_tokens", &Coverage::found_hit_tokens, 0.2},
    {"possible_state_hit_tokens", &Coverage::possible_state_hit_tokens, 0.06},
    {"found_state_hit_tokens", &Coverage::found_state_hit_tokens, 0.06},
    {"state_steps", &Coverage::state_steps, 0.2},
    {"snapshots", &Coverage::snapshots, 0.03},
    {"snapshot_hits", &Coverage::snapshot_hits, 0.005},
    {"snapshot_evictions", &Coverage::snapshot_evictions, 0.002},
    {"snapshot_refusals", &Coverage::snapshot_refusals, 0.002},
    {"recomputed_tokens", &Coverage::recomputed_tokens, 0.05},
    {"refused_queue_full", &Coverage::refused_queue_full, 0.001},
    {"refused_share_full", &Coverage::refused_share_full, 0.001},
    {"refused_never_fits", &Coverage::refused_never_fits, 0.001},
    {"finished_stop", &Coverage::finished_stop, 0.001},
    {"finished_length", &Coverage::finished_length, 0.001},
    {"finished_at_end", &Coverage::finished_at_end, 0.005},
    {"finished_refused", &Coverage::finished_refused, 0.002},
    {"constrained_steps", &Coverage::constrained_steps, 0.2},
    {"late_masks", &Coverage::late_masks, 0.05},
    {"stops_before_min_tokens", &Coverage::stops_before_min_tokens, 0.001},
    {"prompt_logprobs", &Coverage::prompt_logprobs, 0.01},
    {"stalls", &Coverage::stalls, 0.01},
    {"mass_stalls", &Coverage::mass_stalls, 0.001},
    {"cancelled_waiting", &Coverage::cancelled_waiting, 0.01},
    {"cancelled_mid_prompt", &Coverage::cancelled_mid_prompt, 0.01},
    {"cancelled_decoding", &Coverage::cancelled_decoding, 0.01},
    {"cancelled_final_step", &Coverage::cancelled_final_step, 0.01},
    {"cancelled_preempted", &Coverage::cancelled_preempted, 0.01},
    {"cancelled_draining", &Coverage::cancelled_draining, 0.0005},
    {"cancelled_in_flight", &Coverage::cancelled_in_flight, 0.01},
    {"cancelled_stalled", &Coverage::cancelled_stalled, 0.01},
};

// Missed are blocks in flight or of dropped results, and what a prompt whose logprobs are wanted
// may not use.
constexpr double kLeastHitShare = 0.9;
// .. also snapshots whose block has been reused and filled anew, and hits for which no slot was to
// spare.
constexpr double kLeastStateHitShare = 0.8;

}  // namespace

void Coverage::Add(const Coverage& other) {
  for (const Counter& counter : kCounters) this->*counter.value += other.*counter.value;
}

std::string Coverage::ToString() const {
  std::string text;
  for (const Counter& counter : kCounters) {
    const auto value = this->*counter.value;
    absl::StrAppend(&text, "  ", counter.name, " ", value, " (",
                    static_cast<double>(value) / static_cast<double>(steps), " a step)\n");
  }
  return text;
}

std::vector<std::string> Coverage::BelowFloors() const {
  std::vector<std::string> found;
  for (const Counter& counter : kCounters) {
    const double floor = counter.floor_per_step * static_cast<double>(steps);
    const auto value = static_cast<double>(this->*counter.value);
    if (value < floor) {
      found.push_back(absl::StrCat(counter.name, " is ", value, ", below its floor of ", floor));
    }
  }
  const auto check_share = [&](int64_t num_found, int64_t num_possible, double least) {
    if (static_cast<double>(num_found) >= least * static_cast<double>(num_possible)) return;
    found.push_back(absl::StrCat("the prefix cache found ", num_found, " tokens of the ",
                                 num_possible, " that were there"));
  };
  check_share(found_hit_tokens, possible_hit_tokens, kLeastHitShare);
  check_share(found_state_hit_tokens, possible_state_hit_tokens, kLeastStateHitShare);
  return found;
}

}  // namespace quire::sim
