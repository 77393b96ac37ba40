#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/bench/engine/timeline_report.h"
#include "tools/bench/report/plots/bar_plot.h"
#include "tools/bench/statistics.h"

namespace quire::bench {

namespace {

constexpr size_t kDeviceLane = 0, kHostLane = 1;
constexpr const char* kStepColours[2] = {"var(--shade-0)", "var(--shade-5)"};  // told apart

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

// The steps from first to last, and what reaches into their time of those beside them.
void AddSteps(const TimelineReport& report, size_t first, size_t last, Plot* plot) {
  const double zero_us = report.steps[first - 1].device_end_us;
  const double host_zero_us = zero_us + ClockOffsetUs(report);
  const auto add = [&](double begin_us, double end_us, size_t lane, const std::string& colour,
                       const std::string& what) {
    const double us = end_us - begin_us;
    plot->bars.push_back({.begin = begin_us,
                          .end = end_us,
                          .lane = lane,
                          .colour = colour,
                          .label = absl::StrFormat("%.1f", us),
                          .text = absl::StrFormat("%s: %.1f us", what, us)});
  };
  for (size_t i = first - 1; i < std::min(last + 2, report.steps.size()); ++i) {
    const StepTiming& step = report.steps[i];
    const double begin_us = i == 0
                                ? step.device_begin_us
                                : std::max(step.device_begin_us, report.steps[i - 1].device_end_us);
    add(begin_us - zero_us, step.device_end_us - zero_us, kDeviceLane, kStepColours[step.step % 2],
        absl::StrFormat("step %d on the device", step.step));
    for (int stage = 0; stage < kNumStepStages; ++stage) {
      const double from_us = 1e-3 * static_cast<double>(step.host[stage].begin_ns);
      const double to_us = 1e-3 * static_cast<double>(step.host[stage].end_ns);
      add(from_us - host_zero_us, to_us - host_zero_us, kHostLane, PartColour(stage),
          absl::StrFormat("step %d, %s", step.step, StageName(static_cast<StepStage>(stage))));
    }
  }
}

Table BarTable(const Plot& plot) {
  Table table = {
      .caption = plot.title, .head = {"What", "Begins at, us", "Ends at, us"}, .rows = {}};
  for (const Bar& bar : plot.bars)
    table.rows.push_back({bar.text, NumberText(bar.begin), NumberText(bar.end)});
  return table;
}

Table StepTable(const TimelineReport& report) {
  Table table = {.caption = "Microseconds a step",
                 .head = {"us a step", "mean", "p50", "p90", "p99", "max"},
                 .rows = {}};
  const auto add = [&](const std::string& name, const std::vector<double>& samples) {
    const Summary summary = Summarize(samples);
    table.rows.push_back({name, NumberText(summary.mean), NumberText(summary.p50),
                          NumberText(summary.p90), NumberText(summary.p99),
                          NumberText(summary.max)});
  };
  add("device: step, end to end", report.period_us);
  add("device: gap before it", report.gap_us);
  for (int stage = 0; stage < kNumStepStages; ++stage) {
    add(absl::StrCat("host: ", StageName(static_cast<StepStage>(stage))), report.host_us[stage]);
  }
  return table;
}

}  // namespace

std::string ToHtml(const TimelineReport& report, int64_t num_shown) {
  const size_t last_step = report.steps.size() - 1;
  const size_t shown = std::min<size_t>(num_shown, last_step);
  const size_t first = std::max<size_t>(1, (report.steps.size() - shown) / 2);
  const size_t last = std::min(first + shown - 1, last_step);
  Plot plot = {
      .title = absl::StrCat(shown, " of ", report.num_steps, " steps, from the middle of the run"),
      .note =
          "Device: from a step's first operation to its last; neighbours differ in colour, and "
          "what is "
          "empty is idle. Host: the engine's thread."};
  plot.x = {.label = "us",
            .max = report.steps[last].device_end_us - report.steps[first - 1].device_end_us};
  plot.lanes = {{.name = "device"}, {.name = "host"}};
  for (int stage = 0; stage < kNumStepStages; ++stage) {
    plot.legend.emplace_back(PartColour(stage), StageName(static_cast<StepStage>(stage)));
  }
  AddSteps(report, first, last, &plot);
  plot.table = BarTable(plot);
  return HtmlPage(
      "Timeline",
      absl::StrCat(
          "<p class=\"verdict\">", Escape(report.title), "</p>\n",
          absl::StrFormat(
              "<ul class=\"headlines\"><li><b>%.2f %%</b> device busy</li><li><b>%.2f %%</b> idle "
              "between steps</li><li><b>%s</b> tokens/s</li><li><b>%s</b> us a step, "
              "median</li></ul>\n",
              100 * (1 - report.idle_share()), 100 * report.idle_share(),
              NumberText(static_cast<double>(report.num_tokens) / report.wall_us * 1e6),
              NumberText(Summarize(report.period_us).p50)),
          "<section><h2>Device and host</h2>\n", ToHtml(plot),
          "</section>\n<section><h2>Steps</h2>\n"
          "<div class=\"card\">",
          ToHtml(StepTable(report)), "</div></section>\n"));
}

}  // namespace quire::bench
