#include "tools/bench/report/sections/matched_rows.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/bench/report/plots/bar_plot.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

const Json& NoRow() {
  static const Json& none = *new Json();
  return none;
}

// How many times as fast as the first result's; none of the first itself.
std::optional<double> SpeedUp(const RowKind& kind, const MatchedRow& matched, size_t i) {
  const auto first = kind.us_of(*matched.rows[0]), own = kind.us_of(*matched.rows[i]);
  if (i == 0 || !first.has_value() || !own.has_value() || !(*own > 0)) return std::nullopt;
  return *first / *own;
}

std::string SpeedUpText(const std::optional<double>& ratio) {
  return ratio.has_value() ? absl::StrFormat("%.2f×", *ratio) : "–";
}

// Which results any row is of.
std::vector<bool> HaveRows(const Results& results, const std::vector<MatchedRow>& rows) {
  std::vector<bool> have(results.size(), false);
  for (const MatchedRow& matched : rows) {
    for (size_t i = 0; i < results.size(); ++i) have[i] = have[i] || !matched.rows[i]->is_null();
  }
  return have;
}

// The bars of all results that have this row.
void AddBars(const RowKind& kind, const Results& results, const MatchedRow& matched,
             std::vector<BarRow>* rows) {
  bool is_first = true;
  for (size_t i = 0; i < results.size(); ++i) {
    const Json& row = *matched.rows[i];
    if (row.is_null()) continue;
    const auto length = kind.length_of(row);
    const auto ratio = SpeedUp(kind, matched, i);
    BarRow bar = {.name = is_first ? matched.name : "",
                  .end = kind.text_of(row),
                  .belongs_to_last = !is_first};
    if (ratio.has_value()) absl::StrAppend(&bar.end, ", ", SpeedUpText(ratio));
    bar.parts.push_back(
        {.length = length.value_or(0),
         .colour = ShadeOf(results[i]->colour),
         .text = absl::StrCat(results.size() > 1 ? absl::StrCat(results[i]->name, ", ") : "",
                              matched.name, ": ", bar.end, "; ", WithUnit(length, kind.axis))});
    rows->push_back(std::move(bar));
    is_first = false;
  }
}

}  // namespace

std::vector<MatchedRow> MatchRows(const RowKind& kind, const std::vector<const Json*>& lists) {
  std::vector<MatchedRow> all;
  std::map<std::pair<std::string, size_t>, size_t> places;  // of a name's n-th row, in `all`
  for (size_t i = 0; i < lists.size(); ++i) {
    std::map<std::string, size_t> counts;
    for (const Json& row : *lists[i]) {
      if (!row.is_object()) continue;
      const std::string name = ShortText(kind.name_of(row));
      const auto [place, is_new] = places.try_emplace({name, counts[name]++}, all.size());
      if (is_new) all.push_back({name, std::vector<const Json*>(lists.size(), &NoRow())});
      all[place->second].rows[i] = &row;
    }
  }
  return all;
}

std::string MatchedPlot(const std::string& title, const RowKind& kind, const Results& results,
                        const std::vector<MatchedRow>& rows) {
  BarPlot plot = {.title = title, .note = kind.note};
  for (const MatchedRow& matched : rows) AddBars(kind, results, matched, &plot.rows);
  if (plot.rows.empty()) return "";
  const std::vector<bool> have = HaveRows(results, rows);
  for (size_t i = 0; i < results.size(); ++i) {
    if (results.size() > 1 && have[i])
      plot.legend.emplace_back(ShadeOf(results[i]->colour), results[i]->name);
  }
  plot.x = AxisOfRows(kind.axis, plot.rows, kind.reference);
  plot.marks.push_back({kind.reference, ""});
  plot.table = MatchedTable(title, kind, results, rows);
  return ToHtml(plot);
}

Table MatchedTable(const std::string& caption, const RowKind& kind, const Results& results,
                   const std::vector<MatchedRow>& rows) {
  Table table = {.caption = caption, .head = {""}, .rows = {}};
  const std::vector<bool> have = HaveRows(results, rows);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!have[i]) continue;
    const auto add = [&](const std::string& text) {
      table.head.push_back(results.size() == 1 ? Cell(text)
                                               : Cell::OfHtml(absl::StrCat(NameHtml(*results[i]),
                                                                           ": ", Escape(text))));
    };
    if (i > 0) add("times as fast");
    for (const RowColumn& column : kind.columns) add(column.title);
  }
  for (const MatchedRow& matched : rows) {
    std::vector<Cell> cells = {matched.name};
    for (size_t i = 0; i < results.size(); ++i) {
      if (!have[i]) continue;
      if (i > 0) cells.emplace_back(SpeedUpText(SpeedUp(kind, matched, i)));
      for (const RowColumn& column : kind.columns) {
        const Json& object =
            column.object.empty() ? *matched.rows[i] : MemberOf(*matched.rows[i], column.object);
        const auto value = NumberAt(object, column.key);
        const bool is_told = value.has_value() && !(column.is_share && *value > 1);
        cells.emplace_back(is_told ? NumberText(column.factor * *value) : "–");
      }
    }
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace quire::bench
