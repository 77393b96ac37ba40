#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/simulation.h"

namespace quire::sim {
namespace {

struct Counter {
  const char* name;
  int64_t Coverage::*value;
};

constexpr Counter kCounters[] = {
    {"steps", &Coverage::steps},
    {"lookahead_steps", &Coverage::lookahead_steps},
    {"tokens", &Coverage::tokens},
    {"chunks", &Coverage::chunks},
    {"preemptions", &Coverage::preemptions},
    {"prefix_hit_tokens", &Coverage::prefix_hit_tokens},
    {"generated_hits", &Coverage::generated_hits},
    {"evictions", &Coverage::evictions},
    {"window_steps", &Coverage::window_steps},
    {"collision_steps", &Coverage::collision_steps},
    {"inputs_on_device", &Coverage::inputs_on_device},
    {"refused_queue_full", &Coverage::refused_queue_full},
    {"refused_never_fits", &Coverage::refused_never_fits},
    {"finished_stop", &Coverage::finished_stop},
    {"finished_length", &Coverage::finished_length},
    {"stops_before_min_tokens", &Coverage::stops_before_min_tokens},
    {"prompt_logprobs", &Coverage::prompt_logprobs},
    {"pauses", &Coverage::pauses},
    {"cancelled_waiting", &Coverage::cancelled_waiting},
    {"cancelled_mid_prompt", &Coverage::cancelled_mid_prompt},
    {"cancelled_decoding", &Coverage::cancelled_decoding},
    {"cancelled_final_step", &Coverage::cancelled_final_step},
    {"cancelled_preempted", &Coverage::cancelled_preempted},
    {"cancelled_in_flight", &Coverage::cancelled_in_flight},
    {"cancelled_paused", &Coverage::cancelled_paused},
    {"dropped_results", &Coverage::dropped_results},
};

}  // namespace

void Coverage::Add(const Coverage& other) {
  for (const Counter& counter : kCounters) this->*counter.value += other.*counter.value;
}

std::string Coverage::ToString() const {
  std::string text;
  for (const Counter& counter : kCounters) {
    absl::StrAppend(&text, "  ", counter.name, " ", this->*counter.value, "\n");
  }
  return text;
}

}  // namespace quire::sim
