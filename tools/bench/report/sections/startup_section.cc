#include "tools/bench/report/sections/startup_section.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/bench/report/plots/bar_plot.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, const char*> kMoments[] = {{"listening_ms", "it listens"},
                                                            {"first_token_ms", "the first token"}};

std::optional<double> Mean(const Json& json, const std::string& key) {
  return NumberAt(MemberOf(json, key), "mean");
}

// Those that took any time, of all results, in the order of the log.
std::vector<std::string> StagesOf(const Results& results) {
  std::vector<std::string> stages;
  for (const NamedResult* one : results) {
    for (const auto& [name, summary] : MemberOf(one->json(), "stage_ms").items()) {
      const bool is_known = std::find(stages.begin(), stages.end(), name) != stages.end();
      if (!is_known && NumberAt(summary, "mean").value_or(0) > 0) stages.push_back(name);
    }
  }
  return stages;
}

BarRow StagesRow(const NamedResult& one, const std::vector<std::string>& stages) {
  BarRow row = {.name = absl::StrCat(one.name, ": stages")};
  const Json& means = MemberOf(one.json(), "stage_ms");
  double sum_ms = 0;
  for (size_t i = 0; i < stages.size(); ++i) {
    const double ms = Mean(means, stages[i]).value_or(0);
    sum_ms += ms;
    row.parts.push_back({.length = ms,
                         .colour = PartColour(i),
                         .label = stages[i],
                         .text = absl::StrCat(stages[i], ": ", NumberText(ms), " ms")});
  }
  row.end = WithUnit(sum_ms, "ms");
  return row;
}

// Until it listens, or the first token: the mean as a bar, every start as a dot.
BarRow MomentRow(const NamedResult& one, const std::string& key, const std::string& text) {
  const auto ms = Mean(one.json(), key);
  BarRow row = {
      .name = absl::StrCat("until ", text), .end = WithUnit(ms, "ms"), .belongs_to_last = true};
  std::string samples;
  for (const Json& start : MemberOf(one.json(), "starts")) {
    const auto sample = NumberAt(start, key);
    if (!sample.has_value()) continue;
    row.dots.push_back(*sample);
    absl::StrAppend(&samples, samples.empty() ? "; each start: " : ", ", NumberText(*sample));
  }
  row.parts.push_back({.length = ms.value_or(0),
                       .colour = ShadeOf(one.colour),
                       .text = absl::StrCat(one.name, ", until ", text, ": ", WithUnit(ms, "ms"),
                                            ShortText(samples))});
  return row;
}

Table StartTable(const Results& results) {
  Table table = {.caption = "Starts, ms", .head = SummaryHead("ms"), .rows = {}};
  for (const NamedResult* one : results) {
    table.rows.push_back({Cell::OfHtml(NameHtml(*one))});
    for (const auto& [key, text] : kMoments)
      table.rows.push_back(SummaryRow(absl::StrCat("until ", text), MemberOf(one->json(), key)));
    for (const auto& [name, summary] : MemberOf(one->json(), "stage_ms").items())
      table.rows.push_back(SummaryRow(absl::StrCat("stage ", name), summary));
  }
  return table;
}

}  // namespace

std::string StartupSection(const Results& results) {
  if (results.empty()) return "";
  const std::vector<std::string> stages = StagesOf(results);
  BarPlot plot = {.title = "From the start of the process",
                  .note = "Means; a dot is a start. The stages are those of the server's log."};
  for (const NamedResult* one : results) {
    plot.rows.push_back(StagesRow(*one, stages));
    for (const auto& [key, text] : kMoments) plot.rows.push_back(MomentRow(*one, key, text));
  }
  for (size_t i = 0; i < stages.size(); ++i) plot.legend.emplace_back(PartColour(i), stages[i]);
  plot.x = AxisOfRows("ms", plot.rows);
  const Table table = StartTable(results);
  plot.table = {
      .caption = "Each start, ms", .head = {"Start", "it listens", "first token"}, .rows = {}};
  for (const NamedResult* one : results) {
    plot.table.rows.push_back({Cell::OfHtml(NameHtml(*one))});
    size_t number = 0;
    for (const Json& start : MemberOf(one->json(), "starts")) {
      plot.table.rows.push_back({absl::StrCat(++number), ValueText(NumberAt(start, "listening_ms")),
                                 ValueText(NumberAt(start, "first_token_ms"))});
    }
  }
  Table summary = {.caption = "Starts side by side", .head = NameHead(results), .rows = {}};
  for (const auto& [key, text] : kMoments) {
    for (const char* statistic : {"mean", "p50", "max"}) {
      summary.rows.push_back(
          ValueRow(absl::StrCat("Until ", text, ", ", statistic, ", ms"), results, key, statistic));
    }
  }
  summary.rows.push_back(ValueRow("Idle, % of one core", results, "", "idle_cpu_percent"));
  summary.rows.push_back(ValueRow("Resident, MiB", results, "", "resident_bytes", 1.0 / (1 << 20)));
  return absl::StrCat(BesideHtml(results, CardHtml(ToHtml(summary)), ToHtml(plot)),
                      CardHtml(ToHtml(table)));
}

}  // namespace quire::bench
