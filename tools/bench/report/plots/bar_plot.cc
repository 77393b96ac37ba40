#include "tools/bench/report/plots/bar_plot.h"

#include <algorithm>

namespace quire::bench {

namespace {

double LengthOf(const BarRow& row) {
  double length = 0;
  for (const BarPart& part : row.parts) length += std::max(0.0, part.length);
  return length;
}

}  // namespace

std::string ToHtml(const BarPlot& bars) {
  Plot plot = {.title = bars.title,
               .note = bars.note,
               .x = bars.x,
               .marks = bars.marks,
               .table = bars.table,
               .is_list = true,
               .legend = bars.legend};
  const bool has_groups = std::any_of(bars.rows.begin(), bars.rows.end(),
                                      [](const BarRow& row) { return row.belongs_to_last; });
  for (const BarRow& row : bars.rows) {
    double begin = 0;
    for (const BarPart& part : row.parts) {
      const double end = begin + std::max(0.0, part.length);
      plot.bars.push_back({.begin = begin,
                           .end = end,
                           .lane = plot.lanes.size(),
                           .colour = part.colour,
                           .label = part.label,
                           .text = part.text});
      begin = end;
    }
    plot.lanes.push_back(
        {.name = row.name,
         .end = row.end,
         .dots = row.dots,
         .has_line_above = has_groups && !plot.lanes.empty() && !row.belongs_to_last});
  }
  return ToHtml(plot);
}

Axis AxisOfRows(const std::string& label, const std::vector<BarRow>& rows, double least) {
  double most = least;
  for (const BarRow& row : rows) {
    most = std::max(most, LengthOf(row));
    for (const double dot : row.dots) most = std::max(most, dot);
  }
  return LinearAxis(label, most);
}

std::string PartColour(size_t part) {
  constexpr size_t kOrder[kNumColours] = {2, 4, 1, 7, 3, 6, 0, 5};
  return ShadeOf(kOrder[part % kNumColours]);
}

}  // namespace quire::bench
