#include "tools/bench/report/sweep_plots.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/bench/report/run_plots.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

// The points that are objects, by load.
std::vector<Json> PointsOf(const Json& sweep) {
  std::vector<Json> points;
  for (const Json& point : MemberOf(sweep, "points")) {
    if (NumberAt(point, "load").has_value()) points.push_back(point);
  }
  std::stable_sort(points.begin(), points.end(), [](const Json& a, const Json& b) {
    return *NumberAt(a, "load") < *NumberAt(b, "load");
  });
  return points;
}

std::string LoadText(const Json& sweep, double load) {
  return absl::StrCat(NumberText(load),
                      TextAt(sweep, "by") == "concurrency" ? " at a time" : " requests/s");
}

// `y` of each point over `x`.
Series CurveOf(const NamedResult& sweep, const std::string& x, const std::string& y) {
  Series series = {.name = sweep.name, .colour = sweep.colour, .has_dots = true};
  for (const Json& point : PointsOf(sweep.json())) {
    const auto at = NumberAt(point, x), value = NumberAt(point, y);
    if (!at.has_value() || !value.has_value()) continue;
    series.points.emplace_back(*at, *value);
    series.texts.push_back(absl::StrCat("at ", LoadText(sweep.json(), *NumberAt(point, "load"))));
  }
  return series;
}

std::vector<PlotMark> MarksOf(const Results& sweeps, const std::string& x) {
  std::vector<PlotMark> marks;
  for (const NamedResult* sweep : sweeps) {
    const auto load = NumberAt(MemberOf(sweep->json(), "saturation"), "last_good");
    for (const Json& point : PointsOf(sweep->json())) {
      if (!load.has_value() || *NumberAt(point, "load") != *load || !NumberAt(point, x).has_value())
        continue;
      marks.push_back({*NumberAt(point, x),
                       absl::StrCat(sweeps.size() > 1 ? absl::StrCat(sweep->name, ": ") : "",
                                    "saturation, ", LoadText(sweep->json(), *load))});
      break;
    }
  }
  return marks;
}

double MostOf(const std::vector<Series>& all, bool of_x) {
  double most = 0;
  for (const Series& series : all) {
    for (const auto& [x, y] : series.points) most = std::max(most, of_x ? x : y);
  }
  return most;
}

Table TableOf(const Plot& plot, const std::string& x) {
  Table table = {.caption = plot.title, .head = {"Load", x, plot.y.label}, .rows = {}};
  for (const Series& series : plot.series) {
    table.rows.push_back({Cell(series.name)});
    for (size_t i = 0; i < series.points.size(); ++i) {
      table.rows.push_back({i < series.texts.size() ? series.texts[i] : "",
                            NumberText(series.points[i].first),
                            NumberText(series.points[i].second)});
    }
  }
  return table;
}

Plot LatencyPlot(const Results& sweeps, const std::string& metric) {
  Plot plot = {.title = absl::StrCat(MetricText(metric), " against throughput")};
  std::vector<double> values;
  for (const NamedResult* sweep : sweeps) {
    for (const char* statistic : {"p99", "median"}) {
      Series series =
          CurveOf(*sweep, "output_throughput", absl::StrCat(statistic, "_", metric, "_ms"));
      series.name =
          absl::StrCat(sweeps.size() > 1 ? absl::StrCat(sweep->name, ", ") : "", statistic);
      series.is_dashed = absl::string_view(statistic) == "median";
      for (const auto& [x, y] : series.points) values.push_back(y);
      if (!series.points.empty()) plot.series.push_back(std::move(series));
    }
  }
  plot.marks = MarksOf(sweeps, "output_throughput");
  plot.x = LinearAxis("output tokens per second", 1.03 * MostOf(plot.series, true));
  plot.y = LogAxis("ms", values);
  plot.table = TableOf(plot, "Output tokens/s");
  return plot;
}

}  // namespace

std::vector<Plot> SweepPlots(const Results& sweeps) {
  if (sweeps.empty()) return {};
  Plot rates = {.title = "Throughput over load"};
  for (const NamedResult* sweep : sweeps)
    rates.series.push_back(CurveOf(*sweep, "load", "output_throughput"));
  rates.marks = MarksOf(sweeps, "load");
  const bool by_concurrency = TextAt(sweeps[0]->json(), "by") == "concurrency";
  rates.x =
      LinearAxis(by_concurrency ? "requests at a time" : "requests per second that were asked for",
                 1.03 * MostOf(rates.series, true));
  rates.y = LinearAxis("tokens/s", MostOf(rates.series, false));
  rates.table = TableOf(rates, "Load");
  std::vector<Plot> plots = {std::move(rates)};
  for (const char* metric : {"ttft", "itl", "e2el"}) {
    Plot plot = LatencyPlot(sweeps, metric);
    if (!plot.series.empty()) plots.push_back(std::move(plot));
  }
  return plots;
}

Table SweepTable(const NamedResult& sweep) {
  constexpr std::pair<const char*, const char*> kColumns[] = {
      {"achieved_rate", "Requests/s achieved"},
      {"output_throughput", "Output tokens/s"},
      {"good_share", "Good ones, %"},
      {"median_ttft_ms", "TTFT median, ms"},
      {"p99_ttft_ms", "TTFT p99, ms"},
      {"median_itl_ms", "ITL median, ms"},
      {"p99_itl_ms", "ITL p99, ms"},
      {"failed", "Failed"}};
  const std::vector<Json> points = PointsOf(sweep.json());
  Table table = {
      .caption = absl::StrCat("The points of ", sweep.name), .head = {"Load"}, .rows = {}};
  std::vector<std::pair<const char*, const char*>> columns;
  for (const auto& [key, text] : kColumns) {
    const bool is_there = std::any_of(points.begin(), points.end(), [key = key](const Json& point) {
      return NumberAt(point, key).has_value();
    });
    if (!is_there) continue;
    columns.emplace_back(key, text);
    table.head.emplace_back(text);
  }
  table.head.emplace_back("Verdict");
  for (const Json& point : points) {
    std::vector<Cell> row = {LoadText(sweep.json(), *NumberAt(point, "load"))};
    for (const auto& [key, text] : columns) {
      const auto value = NumberAt(point, key);
      const double factor = absl::string_view(key) == "good_share" ? 100 : 1;
      row.push_back(value.has_value() ? NumberText(factor * *value) : "–");
    }
    row.push_back(TextAt(point, "verdict"));
    table.rows.push_back(std::move(row));
  }
  return table;
}

}  // namespace quire::bench
