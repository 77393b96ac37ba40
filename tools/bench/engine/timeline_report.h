// A report on steady decode from a StepTrace: how busy the device was, where the gaps are, and what
// the host did per step; as text, as JSON, and as a picture in one HTML file.
#pragma once

#include <string>
#include <vector>

#include "engine/runner/step_trace.h"
#include "nlohmann/json_fwd.hpp"

namespace quire::bench {

struct TimelineReport {
  std::string title;
  int64_t num_steps = 0;
  int64_t num_tokens = 0;         // generated in these steps
  double wall_us = 0;             // from the first step's end on the device to the last one's
  double busy_us = 0;             // the part of wall_us with a step on the device
  std::vector<double> period_us;  // [num_steps] end to end on the device
  std::vector<double> gap_us;     // [num_steps] before each step
  std::vector<double> host_us[kNumStepStages];
  std::vector<StepTiming> steps;  // in order; the first only says where the second begins
  double idle_share() const { return wall_us > 0 ? 1 - busy_us / wall_us : 0; }
};

const char* StageName(StepStage stage);

// The lengths of sequences for a run with at least `num_steps` steps in which all `num_seqs`
// sequences decode. On average over these steps each sequence has `context` tokens. If `context` is
// too small for that many steps, prompts have one token, and the average is larger.
struct TimelineLengths {
  int64_t input_len;
  int64_t output_len;

  int64_t context() const { return input_len + output_len / 2; }
};
TimelineLengths LengthsFor(int64_t num_seqs, int64_t num_steps, int64_t context);

// The longest run of consecutive steps with `num_seqs` tokens and sequences each, without `margin`
// steps at either end. Empty (num_steps 0) if there is no such run.
TimelineReport MakeTimelineReport(const StepTrace& trace, int64_t num_seqs, int64_t margin);

std::string ToText(const TimelineReport& report);
nlohmann::ordered_json ToJson(const TimelineReport& report);
// A page without references to anything outside it. Shows the middle `num_shown` steps.
std::string ToHtml(const TimelineReport& report, int64_t num_shown);

}  // namespace quire::bench
