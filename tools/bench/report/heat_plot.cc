#include "tools/bench/report/heat_plot.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tools/bench/statistics.h"
#include "tools/cli/counted.h"

namespace quire::bench {

namespace {

constexpr size_t kColumns = 48, kRows = 24;
constexpr size_t kParts = 12;  // of the time, in the table; kColumns is a multiple

struct Gap {
  double end;  // seconds since the first request
  double ms;
};

std::vector<Gap> GapsOf(const SavedRun& run) {
  std::vector<Gap> gaps;
  for (const SavedRequest& request : run.requests) {
    if (!request.got_tokens) continue;
    double time = request.first_token;
    for (const float gap_ms : request.itl_ms) {
      time += gap_ms / 1000;
      gaps.push_back({time, gap_ms});
    }
  }
  return gaps;
}

size_t Column(double time, double end) {
  return std::min(static_cast<size_t>(std::max(time, 0.0) / end * kColumns), kColumns - 1);
}

// The value at a height of 0 to 1 of a logarithmic axis.
double ValueAt(const Axis& axis, double place) {
  return axis.min * std::pow(axis.max / axis.min, place);
}

std::vector<HeatCell> CellsOf(const std::vector<Gap>& gaps, double end, const Axis& y) {
  std::array<std::array<int64_t, kRows>, kColumns> counts = {};
  int64_t most = 0;
  for (const Gap& gap : gaps) {
    const auto row = std::min(static_cast<size_t>(y.Place(gap.ms) * kRows), kRows - 1);
    most = std::max(most, ++counts[Column(gap.end, end)][row]);
  }
  std::vector<HeatCell> cells;
  for (size_t column = 0; column < kColumns; ++column) {
    for (size_t row = 0; row < kRows; ++row) {
      const int64_t count = counts[column][row];
      if (count == 0) continue;
      HeatCell cell = {.x_begin = end * static_cast<double>(column) / kColumns,
                       .x_end = end * static_cast<double>(column + 1) / kColumns,
                       .y_begin = ValueAt(y, static_cast<double>(row) / kRows),
                       .y_end = ValueAt(y, static_cast<double>(row + 1) / kRows),
                       // Rare ones are to be seen beside many.
                       .heat = std::sqrt(static_cast<double>(count) / static_cast<double>(most))};
      cell.text = absl::StrCat(NumberText(cell.x_begin), " – ", NumberText(cell.x_end),
                               " s: ", Counted(count, "gap"), " of ", NumberText(cell.y_begin),
                               " – ", NumberText(cell.y_end), " ms");
      cells.push_back(std::move(cell));
    }
  }
  return cells;
}

Table TableOf(const std::string& title, const std::vector<Gap>& gaps, double end) {
  Table table = {.caption = title,
                 .head = {"Within", "Gaps", "Median, ms", "p99, ms", "Most, ms"},
                 .rows = {}};
  std::array<std::vector<double>, kParts> parts;
  for (const Gap& gap : gaps) {
    parts[Column(gap.end, end) * kParts / kColumns].push_back(gap.ms);
  }
  for (size_t i = 0; i < kParts; ++i) {
    if (parts[i].empty()) continue;
    const size_t count = parts[i].size();
    const Distribution distribution(std::move(parts[i]));
    table.rows.push_back({absl::StrCat(NumberText(end * static_cast<double>(i) / kParts), " – ",
                                       NumberText(end * static_cast<double>(i + 1) / kParts), " s"),
                          absl::StrCat(count), NumberText(distribution.Percentile(50)),
                          NumberText(distribution.Percentile(99)),
                          NumberText(distribution.Percentile(100))});
  }
  return table;
}

}  // namespace

std::vector<Plot> HeatPlots(const Results& runs) {
  std::vector<Plot> plots;
  for (const NamedResult* one : runs) {
    const std::vector<Gap> gaps = GapsOf(one->run);
    if (gaps.empty()) continue;
    double end = 0;
    std::vector<double> values;
    for (const Gap& gap : gaps) {
      end = std::max(end, gap.end);
      values.push_back(gap.ms);
    }
    if (end <= 0) continue;
    Plot plot = {
        .title = absl::StrCat("Heat of steps: ", one->name),
        .note =
            "Gaps between tokens when they came, the stronger the colour the more: a step of "
            "the engine gives each stream a token"};
    plot.x = {.label = "seconds since the first request", .max = end};
    plot.y = LogAxis("ms", values);
    plot.cells = CellsOf(gaps, end, plot.y);
    plot.heat_colour = one->colour;
    plot.table = TableOf(plot.title, gaps, end);
    plots.push_back(std::move(plot));
  }
  return plots;
}

}  // namespace quire::bench
