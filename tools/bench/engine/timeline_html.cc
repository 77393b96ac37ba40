#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tools/bench/engine/timeline_report.h"
#include "tools/bench/report/result_page.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

// The host's clock minus the device's, in microseconds: waiting never ends before the device does,
// so the shortest distance seen is the best guess.
double ClockOffsetUs(const TimelineReport& report) {
  double offset_us = INFINITY;
  for (const StepTiming& step : report.steps) {
    const auto& wait = step.host[static_cast<size_t>(StepStage::kWait)];
    offset_us = std::min(offset_us, 1e-3 * static_cast<double>(wait.end_ns) - step.device_end_us);
  }
  return offset_us;
}

// The steps from first to last, and what reaches into their time of those beside them: when each
// began and ended, in microseconds from the first one's begin.
Json StepsJson(const TimelineReport& report, size_t first, size_t last) {
  const double zero_us = report.steps[first - 1].device_end_us;
  const double host_zero_us = zero_us + ClockOffsetUs(report);
  Json steps = Json::array();
  for (size_t i = first - 1; i < std::min(last + 2, report.steps.size()); ++i) {
    const StepTiming& step = report.steps[i];
    const double begin_us = i == 0
                                ? step.device_begin_us
                                : std::max(step.device_begin_us, report.steps[i - 1].device_end_us);
    Json host = Json::array();
    for (const StepTiming::Span& span : step.host) {
      host.push_back({1e-3 * static_cast<double>(span.begin_ns) - host_zero_us,
                      1e-3 * static_cast<double>(span.end_ns) - host_zero_us});
    }
    steps.push_back({{"step", step.step},
                     {"device", {begin_us - zero_us, step.device_end_us - zero_us}},
                     {"host", std::move(host)}});
  }
  return steps;
}

}  // namespace

std::string ToHtml(const TimelineReport& report, int64_t num_shown) {
  const size_t last_step = report.steps.size() - 1;
  const size_t shown = std::min<size_t>(num_shown, last_step);
  const size_t first = std::max<size_t>(1, (report.steps.size() - shown) / 2);
  const size_t last = std::min(first + shown - 1, last_step);
  Json stages = Json::array();
  for (int stage = 0; stage < kNumStepStages; ++stage) {
    stages.push_back(StageName(static_cast<StepStage>(stage)));
  }
  const double span_us = report.steps[last].device_end_us - report.steps[first - 1].device_end_us;
  return ResultPage("Timeline", {{"timeline",
                                  {{"title", report.title},
                                   {"num_shown", shown},
                                   {"span_us", span_us},
                                   {"stages", std::move(stages)},
                                   {"json", ToJson(report)},
                                   {"steps", StepsJson(report, first, last)}}}});
}

}  // namespace quire::bench
