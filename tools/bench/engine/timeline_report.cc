#include "tools/bench/engine/timeline_report.h"

#include <algorithm>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/bench/statistics.h"
#include "tools/cli/counted.h"

namespace quire::bench {

namespace {

// Steps of the wanted size with no step missing between them.
std::vector<StepTiming> LongestRun(std::vector<StepTiming> steps, int64_t num_seqs) {
  std::sort(steps.begin(), steps.end(),
            [](const StepTiming& a, const StepTiming& b) { return a.step < b.step; });
  std::vector<StepTiming> best, run;
  for (const StepTiming& step : steps) {
    const bool fits = step.used && step.num_seqs == num_seqs && step.num_tokens == num_seqs;
    const bool follows = run.empty() || run.back().step + 1 == step.step;
    if (!fits || !follows) run.clear();
    if (fits) run.push_back(step);
    if (run.size() > best.size()) best = run;
  }
  return best;
}

}  // namespace

const char* StageName(StepStage stage) {
  constexpr const char* kNames[kNumStepStages] = {"schedule", "build",  "submit", "sample",
                                                  "wait",     "commit", "deliver"};
  return kNames[static_cast<size_t>(stage)];
}

// The steps run from the last sequence's first token to the first one's last: over all of them and
// all sequences the context is a prompt and half an answer on average, whenever each of the prompts
// was computed.
TimelineLengths LengthsFor(int64_t num_seqs, int64_t num_steps, int64_t context) {
  // The first sequences decode while the last are still prefilled, at most a step each: they need
  // more tokens.
  const int64_t output_len = num_steps + num_seqs;
  return {.input_len = std::max<int64_t>(1, context - output_len / 2), .output_len = output_len};
}

TimelineReport MakeTimelineReport(const StepTrace& trace, int64_t num_seqs, int64_t margin) {
  TimelineReport report;
  const std::vector<StepTiming> run = LongestRun(trace.ring(), num_seqs);
  const auto size = static_cast<int64_t>(run.size());
  if (size < 2 * margin + 2) return report;
  report.steps.assign(run.begin() + margin, run.end() - margin);
  for (size_t i = 1; i < report.steps.size(); ++i) {
    const StepTiming& step = report.steps[i];
    const StepTiming& before = report.steps[i - 1];
    // With a step always queued behind the running one, the device passes from one to the next.
    const double begin_us = std::max(step.device_begin_us, before.device_end_us);
    report.gap_us.push_back(begin_us - before.device_end_us);
    report.period_us.push_back(step.device_end_us - before.device_end_us);
    report.busy_us += step.device_end_us - begin_us;
    report.num_tokens += step.num_tokens;
    for (int stage = 0; stage < kNumStepStages; ++stage) {
      const StepTiming::Span& span = step.host[stage];
      report.host_us[stage].push_back(1e-3 * static_cast<double>(span.end_ns - span.begin_ns));
    }
  }
  report.num_steps = static_cast<int64_t>(report.period_us.size());
  report.wall_us = report.steps.back().device_end_us - report.steps.front().device_end_us;
  return report;
}

std::string ToText(const TimelineReport& report) {
  std::string text = absl::StrFormat(
      "%s\n%s, %.1f ms: device busy %.2f %%, idle between steps %.2f %%; %.1f tokens/s\n%s\n",
      report.title, Counted(report.num_steps, "step"), report.wall_us * 1e-3,
      100 * (1 - report.idle_share()), 100 * report.idle_share(),
      static_cast<double>(report.num_tokens) / report.wall_us * 1e6, SummaryHeader("us a step"));
  text += SummaryRow("device: step, end to end", Distribution(report.period_us)) + "\n";
  text += SummaryRow("device: gap before it", Distribution(report.gap_us)) + "\n";
  for (int stage = 0; stage < kNumStepStages; ++stage) {
    text += SummaryRow(absl::StrFormat("host: %s", StageName(static_cast<StepStage>(stage))),
                       Distribution(report.host_us[stage])) +
            "\n";
  }
  return text;
}

nlohmann::ordered_json ToJson(const TimelineReport& report) {
  nlohmann::ordered_json json = {
      {"title", report.title},
      {"steps", report.num_steps},
      {"wall_us", report.wall_us},
      {"busy_us", report.busy_us},
      {"idle_share", report.idle_share()},
      {"tokens_per_s", static_cast<double>(report.num_tokens) / report.wall_us * 1e6},
      {"period_us", ToJson(Distribution(report.period_us))},
      {"gap_us", ToJson(Distribution(report.gap_us))}};
  for (int stage = 0; stage < kNumStepStages; ++stage) {
    json["host_us"][StageName(static_cast<StepStage>(stage))] =
        ToJson(Distribution(report.host_us[stage]));
  }
  return json;
}

}  // namespace quire::bench
