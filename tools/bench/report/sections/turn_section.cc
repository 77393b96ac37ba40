#include "tools/bench/report/sections/turn_section.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/bench/report/plots/bar_plot.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, const char*> kColumns[] = {
    {"completed", "Requests"},
    {"total_input_tokens", "Prompt tokens"},
    {"cached_input_tokens", "Of them cached"},
    {"cached_share", "Cached, %"},
    {"total_output_tokens", "Output tokens"},
    {"mean_ttft_ms", "TTFT mean, ms"},
    {"median_ttft_ms", "TTFT median, ms"},
    {"p99_ttft_ms", "TTFT p99, ms"},
    {"mean_e2el_ms", "Mean latency, ms"},
    {"p99_e2el_ms", "p99 latency, ms"}};

// An object of turn `i`; null where the run has none.
const Json& TurnOf(const NamedResult& run, size_t i) {
  static const Json& none = *new Json();
  const Json& turns = MemberOf(run.json(), "turns");
  return turns.is_array() && i < turns.size() ? turns[i] : none;
}

BarRow TurnRow(const NamedResult& run, size_t i, bool is_first) {
  const Json& turn = TurnOf(run, i);
  const auto median_ms = NumberAt(turn, "median_ttft_ms"), p99_ms = NumberAt(turn, "p99_ttft_ms");
  const auto cached = NumberAt(turn, "cached_share");
  BarRow row = {.name = is_first ? absl::StrCat("turn ", i + 1) : "",
                .end = WithUnit(median_ms, "ms"),
                .belongs_to_last = !is_first};
  if (cached.has_value()) absl::StrAppend(&row.end, ", ", NumberText(100 * *cached), " % cached");
  if (p99_ms.has_value()) row.dots.push_back(*p99_ms);
  row.parts.push_back({.length = median_ms.value_or(0),
                       .colour = ShadeOf(run.colour),
                       .text = absl::StrCat(run.name, ", turn ", i + 1, ": ", row.end, "; p99 ",
                                            WithUnit(p99_ms, "ms"))});
  return row;
}

std::vector<Cell> TableRow(const NamedResult& run, size_t i) {
  std::vector<Cell> row = {absl::StrCat("turn ", i + 1)};
  for (const auto& [key, text] : kColumns) {
    const auto value = NumberAt(TurnOf(run, i), key);
    const double factor = absl::string_view(key) == "cached_share" ? 100 : 1;
    row.emplace_back(value.has_value() ? NumberText(factor * *value) : "–");
  }
  return row;
}

}  // namespace

std::string TurnSection(const Results& all) {
  Results runs;
  size_t num_turns = 0;
  for (const NamedResult* one : all) {
    const Json& turns = MemberOf(one->json(), "turns");
    if (!turns.is_array() || turns.size() < 2) continue;
    runs.push_back(one);
    num_turns = std::max(num_turns, turns.size());
  }
  if (runs.empty()) return "";
  BarPlot plot = {.title = "Time to first token by turn",
                  .note = "Bars are medians, a dot is the 99th percentile"};
  plot.table = {.caption = "Turns", .head = {""}, .rows = {}};
  for (const auto& [key, text] : kColumns) plot.table.head.emplace_back(text);
  for (const NamedResult* run : runs) {
    plot.table.rows.push_back({Cell::OfHtml(NameHtml(*run))});
    for (size_t i = 0; i < MemberOf(run->json(), "turns").size(); ++i)
      plot.table.rows.push_back(TableRow(*run, i));
    plot.legend.emplace_back(ShadeOf(run->colour), run->name);
  }
  for (size_t i = 0; i < num_turns; ++i) {
    bool is_first = true;
    for (const NamedResult* run : runs) {
      if (i >= MemberOf(run->json(), "turns").size()) continue;
      plot.rows.push_back(TurnRow(*run, i, is_first));
      is_first = false;
    }
  }
  plot.x = AxisOfRows("ms", plot.rows);
  return ToHtml(plot);
}

}  // namespace quire::bench
