#include "tools/bench/report/report_data.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "nlohmann/json.hpp"
#include "tools/bench/report/result_page.h"
#include "tools/bench/results/comparison.h"
#include "tools/bench/results/figure.h"
#include "tools/bench/results/workload_check.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;
using Runs = std::vector<const SavedRun*>;

// Comparisons of runs, two by two, as `compare` makes them; each when it is first asked for.
class Comparisons {
 public:
  Comparisons(const Runs& runs, Progress* progress) : runs_(runs), progress_(progress) {}

  // Whether the i-th is better than the j-th beyond doubt.
  bool IsClearlyBetter(const Figure& figure, size_t i, size_t j) {
    for (const size_t run : {i, j}) {
      if (!runs_[run]->why_no_requests.empty()) return false;  // there is no interval
    }
    const bool are_swapped = i > j;
    const std::vector<ComparedFigure>& figures = Of(std::min(i, j), std::max(i, j));
    const auto one = std::find_if(
        figures.begin(), figures.end(),
        [&](const ComparedFigure& compared) { return compared.figure.name == figure.name; });
    if (one == figures.end()) return false;
    return ClearDirection(*one) * (are_swapped ? 1 : -1) * figure.better > 0;
  }

 private:
  const std::vector<ComparedFigure>& Of(size_t first, size_t second) {
    const auto [place, is_new] = made_.try_emplace({first, second});
    if (is_new) {
      const auto side = [this](size_t i) { return absl::MakeConstSpan(runs_[i], 1); };
      const ComparisonOptions options = {.are_paired = ArePaired(side(first), side(second))};
      place->second = Compare(side(first), side(second), options, progress_);
    }
    return place->second;
  }

  const Runs& runs_;
  Progress* const progress_;
  std::map<std::pair<size_t, size_t>, std::vector<ComparedFigure>> made_;
};

// Which run is better than each other one that has the figure, beyond doubt.
std::optional<size_t> ClearlyBest(const Figure& figure, const Runs& runs,
                                  Comparisons* comparisons) {
  if (figure.better == 0 || figure.kind == FigureKind::kStated) return std::nullopt;
  std::vector<std::optional<double>> values;
  for (const SavedRun* run : runs) values.push_back(NumberAt(run->json(), figure.name));
  std::optional<size_t> best;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].has_value()) continue;
    if (!best.has_value() || figure.better * (*values[i] - *values[*best]) > 0) best = i;
  }
  bool has_others = false;
  for (size_t i = 0; i < values.size() && best.has_value(); ++i) {
    if (i == *best || !values[i].has_value()) continue;
    has_others = true;
    if (*values[i] == *values[*best] || !comparisons->IsClearlyBetter(figure, *best, i)) {
      return std::nullopt;
    }
  }
  return has_others ? best : std::nullopt;
}

const char* KindName(FigureKind kind) {
  if (kind == FigureKind::kLatency) return "latency";
  return kind == FigureKind::kRate ? "rate" : "stated";
}

// Those that any of the runs has, in the order of a report.
Json FiguresJson(const Runs& runs, Progress* progress) {
  Comparisons comparisons(runs, progress);
  Json figures = Json::array();
  for (const Figure& figure : FiguresOf(runs)) {
    Json json = {{"name", figure.name}, {"kind", KindName(figure.kind)}, {"metric", figure.metric}};
    if (const auto best = ClearlyBest(figure, runs, &comparisons); best.has_value()) {
      json["best"] = *best;
    }
    figures.push_back(std::move(json));
  }
  return figures;
}

// Columns, each with a value for each request: null where it has no token, or did not complete.
Json RequestsJson(const SavedRun& run) {
  Json columns;
  for (const char* key :
       {"start", "first_token", "end", "ttft_ms", "tpot_ms", "e2el_ms", "output_tokens", "itl_ms"})
    columns[key] = Json::array();
  for (const SavedRequest& request : run.requests) {
    const auto if_answered = [&](const std::optional<double>& value) {
      return request.got_tokens && value.has_value() ? Json(Short(*value)) : Json();
    };
    columns["start"].push_back(Short(request.start));
    columns["first_token"].push_back(Short(request.first_token));
    columns["end"].push_back(Short(request.end));
    columns["ttft_ms"].push_back(if_answered(request.ttft_ms));
    columns["tpot_ms"].push_back(if_answered(request.tpot_ms));
    columns["e2el_ms"].push_back(if_answered(request.e2el_ms));
    columns["output_tokens"].push_back(request.output_tokens);
    Json gaps = Json::array();
    if (request.got_tokens) {
      for (const float gap_ms : request.itl_ms) gaps.push_back(Short(gap_ms));
    }
    columns["itl_ms"].push_back(std::move(gaps));
  }
  return columns;
}

}  // namespace

Json ReportData(const std::vector<NamedResult>& results, Progress* progress) {
  Json list = Json::array();
  Runs runs;
  for (const NamedResult& one : results) {
    Json json = {
        {"name", one.name}, {"kind", one.kind}, {"colour", list.size()}, {"json", one.run.json()}};
    if (one.kind == "run") {
      runs.push_back(&one.run);
      json["doubts"] = DoubtsOf(one.run);
      json["why_no_requests"] = one.run.why_no_requests;
      if (one.run.why_no_requests.empty()) json["requests"] = RequestsJson(one.run);
    }
    list.push_back(std::move(json));
  }
  return {{"results", std::move(list)}, {"figures", FiguresJson(runs, progress)}};
}

}  // namespace quire::bench
