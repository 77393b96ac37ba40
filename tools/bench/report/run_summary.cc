#include "tools/bench/report/run_summary.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/bench/report/run_plots.h"
#include "tools/bench/results/comparison.h"
#include "tools/bench/results/figure.h"
#include "tools/bench/results/workload_check.h"

namespace quire::bench {

namespace {

using Json = nlohmann::ordered_json;

// "p99" of "p99_ttft_ms".
std::string StatisticText(const Figure& figure) {
  return figure.name.substr(0, figure.name.find('_'));
}

// Comparisons of runs, two by two, as `compare` makes them; each when it is first asked for.
class Comparisons {
 public:
  Comparisons(const Results& runs, Progress* progress) : runs_(runs), progress_(progress) {}

  // Whether the i-th is better than the j-th beyond doubt.
  bool IsClearlyBetter(const Figure& figure, size_t i, size_t j) {
    for (const size_t run : {i, j}) {
      if (!runs_[run]->run.why_no_requests.empty()) return false;  // there is no interval
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
      const auto side = [this](size_t i) { return absl::MakeConstSpan(&runs_[i]->run, 1); };
      const ComparisonOptions options = {.are_paired = ArePaired(side(first), side(second))};
      place->second = Compare(side(first), side(second), options, progress_);
    }
    return place->second;
  }

  const Results& runs_;
  Progress* const progress_;
  std::map<std::pair<size_t, size_t>, std::vector<ComparedFigure>> made_;
};

// Which run is better than each other one that has the figure, beyond doubt.
std::optional<size_t> ClearlyBest(const Figure& figure,
                                  const std::vector<std::optional<double>>& values,
                                  Comparisons* comparisons) {
  if (figure.better == 0 || figure.kind == FigureKind::kStated) return std::nullopt;
  std::optional<size_t> best;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].has_value()) continue;
    if (!best.has_value() || figure.better * (*values[i] - *values[*best]) > 0) best = i;
  }
  bool is_alone = true;
  for (size_t i = 0; i < values.size() && best.has_value(); ++i) {
    if (i == *best || !values[i].has_value()) continue;
    is_alone = false;
    if (*values[i] == *values[*best] || !comparisons->IsClearlyBetter(figure, *best, i)) {
      return std::nullopt;
    }
  }
  return is_alone ? std::nullopt : best;
}

// The values of a figure, the best of several in bold.
std::vector<Cell> ValueCells(const Figure& figure, const Results& runs, Comparisons* comparisons) {
  std::vector<std::optional<double>> values;
  for (const NamedResult* one : runs) values.push_back(NumberAt(one->json(), figure.name));
  const std::optional<size_t> best = ClearlyBest(figure, values, comparisons);
  std::vector<Cell> cells;
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string text = ValueText(values[i]);
    cells.push_back(i == best ? Cell::OfHtml(absl::StrCat("<b>", text, "</b>")) : Cell(text));
  }
  return cells;
}

// The figures that `group_of` has a group for.
Table SummaryTable(const Results& runs, const std::string& caption,
                   std::string (*group_of)(const Figure& figure), Comparisons* comparisons) {
  Table table = {.caption = caption, .head = NameHead(runs), .rows = {}};
  std::vector<SavedRun> saved;
  for (const NamedResult* one : runs) {
    saved.push_back(
        {.path = "", .json = one->json(), .requests = {}, .why_no_requests = "", .goodput = {}});
  }
  // Where places alone decide when a request is sent, its wait for one is none of the server's.
  const bool have_queues = std::any_of(runs.begin(), runs.end(), [](const NamedResult* one) {
    return TextAt(one->json(), "latencies_from") != "sent";
  });
  std::string group;
  std::vector<Figure> figures = FiguresOf(saved);
  std::stable_sort(figures.begin(), figures.end(), [](const Figure& a, const Figure& b) {
    return (a.kind == FigureKind::kRate) > (b.kind == FigureKind::kRate);
  });
  for (const Figure& figure : figures) {
    const std::string its_group = group_of(figure);
    if (its_group.empty() || (figure.metric == "client_queue_time" && !have_queues)) continue;
    if (group != its_group) table.rows.push_back({Cell(group = its_group)});
    std::vector<Cell> row = {figure.kind == FigureKind::kLatency ? StatisticText(figure)
                                                                 : NameText(figure.name)};
    for (Cell& cell : ValueCells(figure, runs, comparisons)) row.push_back(std::move(cell));
    table.rows.push_back(std::move(row));
  }
  return table;
}

std::string LatencyGroup(const Figure& figure) {
  return figure.kind == FigureKind::kLatency ? absl::StrCat(MetricText(figure.metric), ", ms") : "";
}

std::string OtherGroup(const Figure& figure) {
  if (figure.kind == FigureKind::kLatency) return "";
  return figure.kind == FigureKind::kRate ? "Throughput" : "Counts";
}

// Counts that matter where they are not zero, and what only some commands tell.
void AddMoreCounts(const Results& runs, Table* table) {
  for (const char* key : {"abandoned", "timed_out", "unfinished", "unsent", "uncounted", "stopped",
                          "steps", "preemptions", "tokens_per_piece", "decode_tokens_per_s"}) {
    const bool is_told = std::any_of(runs.begin(), runs.end(), [key](const NamedResult* one) {
      return NumberAt(one->json(), key).value_or(0) != 0;
    });
    if (is_told) table->rows.push_back(ValueRow(NameText(key), runs, "", key));
  }
}

// `latency` says how long its batches took.
void AddBatches(const Results& runs, Table* table) {
  const bool is_told = std::any_of(runs.begin(), runs.end(), [](const NamedResult* one) {
    return MemberOf(one->json(), "batch_ms").is_object();
  });
  if (!is_told) return;
  table->rows.push_back({"Whole batch, ms"});
  for (const char* statistic : {"mean", "min", "p50", "p90", "p99", "max"})
    table->rows.push_back(ValueRow(statistic, runs, "batch_ms", statistic));
}

}  // namespace

std::string RunSummary(const Results& runs, Progress* progress) {
  Comparisons comparisons(runs, progress);
  Table counts = SummaryTable(runs, "Throughput and counts", OtherGroup, &comparisons);
  Table latencies = SummaryTable(runs, "Latencies", LatencyGroup, &comparisons);
  AddMoreCounts(runs, &counts);
  AddBatches(runs, &latencies);
  return BesideHtml(runs, counts.rows.empty() ? "" : CardHtml(ToHtml(counts)),
                    latencies.rows.empty() ? "" : CardHtml(ToHtml(latencies)));
}

std::string RunNotices(const Results& runs) {
  std::string items;
  for (const NamedResult* one : runs) {
    for (const std::string& doubt : DoubtsOf(one->run))
      absl::StrAppend(&items, "<li>", Escape(doubt), "</li>\n");
    if (!one->run.why_no_requests.empty()) {
      absl::StrAppend(&items, "<li>", Escape(one->run.why_no_requests),
                      ": it is in no plot</li>\n");
    }
    for (const Json& problem : MemberOf(one->json(), "problems")) {
      absl::StrAppend(&items, "<li class=\"error\">", Escape(one->name), ": ",
                      Escape(TextAt(problem, "count")), " × ",
                      Escape(ShortText(TextAt(problem, "problem"))), "</li>\n");
    }
  }
  return items;
}

std::string RunHeadlines(const NamedResult& one) {
  constexpr std::pair<const char*, const char*> kHeadlines[] = {
      {"output_throughput", "output tokens/s"},
      {"request_throughput", "requests/s"},
      {"median_ttft_ms", "ms to the first token, median"},
      {"p99_ttft_ms", "ms to the first token, p99"},
      {"median_itl_ms", "ms between tokens, median"}};
  std::string items;
  for (const auto& [key, text] : kHeadlines) {
    const auto value = NumberAt(one.json(), key);
    if (!value.has_value()) continue;
    absl::StrAppend(&items, "<li><b>", NumberText(*value), "</b> ", text, "</li>\n");
  }
  return items.empty() ? "" : absl::StrCat("<ul class=\"headlines\">\n", items, "</ul>\n");
}

}  // namespace quire::bench
