#include "tools/bench/report/sections/timeline_section.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/bench/report/plots/bar_plot.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr char kIdleColour[] = "var(--line)";

BarPart Part(const std::string& name, double us, const std::string& colour) {
  return {.length = us,
          .colour = colour,
          .label = name,
          .text = absl::StrCat(name, ": ", NumberText(us), " us")};
}

BarRow DeviceRow(const NamedResult& one) {
  const auto period_us = NumberAt(MemberOf(one.json(), "period_us"), "mean");
  const double gap_us = NumberAt(MemberOf(one.json(), "gap_us"), "mean").value_or(0);
  BarRow row = {.name = absl::StrCat(one.name, ": device"), .end = WithUnit(period_us, "us")};
  row.parts.push_back(Part("idle before the step", gap_us, kIdleColour));
  row.parts.push_back(Part("step", period_us.value_or(0) - gap_us, ShadeOf(one.colour)));
  return row;
}

BarRow HostRow(const NamedResult& one, const std::vector<std::string>& stages) {
  BarRow row = {.name = "host", .belongs_to_last = true};
  double sum_us = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    const double us =
        NumberAt(MemberOf(MemberOf(one.json(), "host_us"), stages[i]), "mean").value_or(0);
    sum_us += us;
    row.parts.push_back(Part(stages[i], us, PartColour(i)));
  }
  row.end = WithUnit(sum_us, "us");
  return row;
}

Table StepTable(const Results& results) {
  Table table = {.caption = "Microseconds a step", .head = SummaryHead("us a step"), .rows = {}};
  for (const NamedResult* one : results) {
    table.rows.push_back({Cell::OfHtml(NameHtml(*one))});
    table.rows.push_back(
        SummaryRow("device: step, end to end", MemberOf(one->json(), "period_us")));
    table.rows.push_back(SummaryRow("device: gap before it", MemberOf(one->json(), "gap_us")));
    for (const auto& [stage, summary] : MemberOf(one->json(), "host_us").items())
      table.rows.push_back(SummaryRow(absl::StrCat("host: ", stage), summary));
  }
  return table;
}

}  // namespace

std::string TimelineSection(const Results& results) {
  if (results.empty()) return "";
  std::vector<std::string> stages;
  for (const NamedResult* one : results) {
    for (const auto& [stage, summary] : MemberOf(one->json(), "host_us").items()) {
      if (std::find(stages.begin(), stages.end(), stage) == stages.end()) stages.push_back(stage);
    }
  }
  BarPlot plot = {
      .title = "A step of the device and of the host",
      .note = "Means. The host works while the device does: wait is the step's own time."};
  for (const NamedResult* one : results) {
    plot.rows.push_back(DeviceRow(*one));
    plot.rows.push_back(HostRow(*one, stages));
  }
  plot.legend.emplace_back(kIdleColour, "device idle");
  for (size_t i = 0; i < stages.size(); ++i) plot.legend.emplace_back(PartColour(i), stages[i]);
  plot.x = AxisOfRows("us", plot.rows);
  plot.table = StepTable(results);
  Table table = {.caption = "Steady decode",
                 .head = NameHead(results),
                 .rows = {ValueRow("Tokens per second", results, "", "tokens_per_s"),
                          {"Device busy, %"},
                          ValueRow("Device idle between steps, %", results, "", "idle_share", 100),
                          ValueRow("Steps", results, "", "steps"),
                          ValueRow("Their time, ms", results, "", "wall_us", 1e-3),
                          ValueRow("Of it busy, ms", results, "", "busy_us", 1e-3),
                          ValueRow("Step, median, us", results, "period_us", "p50")}};
  for (const NamedResult* one : results) {
    const auto idle_share = NumberAt(one->json(), "idle_share");
    table.rows[1].emplace_back(idle_share.has_value() ? NumberText(100 * (1 - *idle_share)) : "–");
  }
  return BesideHtml(results, CardHtml(ToHtml(table)), ToHtml(plot));
}

}  // namespace quire::bench
