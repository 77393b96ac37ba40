#include "tools/bench/results/figure.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "nlohmann/json.hpp"
#include "tools/bench/failure.h"
#include "tools/bench/serve/serve_report.h"

namespace quire::bench {

namespace {

constexpr const char* kMetrics[] = {"ttft", "tpot", "itl", "e2el", "client_queue_time"};
constexpr const char* kRates[] = {"request_throughput", "request_goodput", "output_throughput",
                                  "total_token_throughput"};
// Figures of runs as a whole: their names, and whether more is better.
constexpr std::pair<const char*, int> kStated[] = {{"duration", 0},
                                                   {"completed", 0},
                                                   {"failed", -1},
                                                   {"total_input_tokens", 0},
                                                   {"cached_input_tokens", 0},
                                                   {"total_output_tokens", 0},
                                                   {"max_output_tokens_per_s", 1},
                                                   {"max_concurrent_requests", 0}};

// "p99", "mean", "median", "std".
bool ParseStatistic(absl::string_view text, Figure* figure) {
  if (text == "mean") return true;
  figure->statistic = text == "std" ? Statistic::kDeviation : Statistic::kPercentile;
  figure->percent = 50;
  if (text == "std" || text == "median") return true;
  return absl::ConsumePrefix(&text, "p") && absl::SimpleAtod(text, &figure->percent) &&
         figure->percent >= 0 && figure->percent <= 100;
}

bool IsGood(const SavedRun& run, const SavedRequest& request) {
  return request.e2el_ms.has_value() &&
         KeepsBounds(run.goodput, request.ttft_ms, request.tpot_ms.value_or(0), *request.e2el_ms);
}

// Mean, median, deviation, then other percentiles.
double Rank(const Figure& figure) {
  if (figure.statistic == Statistic::kMean) return -3;
  if (figure.name.starts_with("median")) return -2;
  return figure.statistic == Statistic::kDeviation ? -1 : figure.percent;
}

}  // namespace

Figure FigureNamed(const std::string& name) {
  Figure figure = {.name = name};
  if (std::find(std::begin(kRates), std::end(kRates), name) != std::end(kRates)) {
    figure.kind = FigureKind::kRate;
    figure.better = 1;
    return figure;
  }
  const absl::string_view stem = absl::StripSuffix(name, "_ms");
  const size_t end = stem.find('_');
  for (const char* metric : kMetrics) {
    Figure latency = {.name = absl::StrCat(stem, "_ms"),
                      .kind = FigureKind::kLatency,
                      .metric = metric,
                      .better = -1};
    if (end != absl::string_view::npos && stem.substr(end + 1) == metric &&
        ParseStatistic(stem.substr(0, end), &latency)) {
      return latency;
    }
  }
  for (const auto& [stated, better] : kStated) {
    if (name == stated) figure.better = better;
  }
  return figure;
}

std::vector<Figure> FiguresOf(const std::vector<const SavedRun*>& runs) {
  std::vector<Figure> figures;
  const auto add = [&](const std::string& name) {
    const bool is_known = std::any_of(figures.begin(), figures.end(),
                                      [&](const Figure& f) { return f.name == name; });
    const bool is_there = std::any_of(runs.begin(), runs.end(), [&](const SavedRun* run) {
      return NumberAt(run->json(), name).has_value();
    });
    if (is_there && !is_known) figures.push_back(FigureNamed(name));
  };
  for (const auto& [name, better] : kStated) add(name);
  for (const char* name : kRates) add(name);
  for (const char* metric : kMetrics) {
    const size_t begin = figures.size();
    for (const SavedRun* run : runs) {
      for (const auto& [key, value] : run->json().items()) {
        if (FigureNamed(key).metric == metric) add(key);
      }
    }
    std::stable_sort(figures.begin() + static_cast<std::ptrdiff_t>(begin), figures.end(),
                     [](const Figure& a, const Figure& b) { return Rank(a) < Rank(b); });
  }
  return figures;
}

absl::Status CheckHasFigures(const SavedRun& run) {
  for (const auto& [key, value] : run.json().items()) {
    const bool is_stated =
        std::any_of(std::begin(kStated), std::end(kStated),
                    [&, &name = key](const auto& one) { return name == one.first; });
    const bool is_figure = is_stated || FigureNamed(key).kind != FigureKind::kStated;
    if (is_figure && NumberAt(run.json(), key).has_value()) return absl::OkStatus();
  }
  return WithExitCode(
      kNoInput,
      absl::InvalidArgumentError(absl::StrCat(
          run.path,
          ": none of the keys of a run, such as \"output_throughput\" or \"mean_ttft_ms\". Files "
          "are "
          "what serve, throughput and latency --json write, or vLLM's bench serve; for report also "
          "what sweep, startup, kernels, timeline and quality --json write")));
}

void AppendSamples(const SavedRequest& request, const std::string& metric,
                   std::vector<double>* samples) {
  if (!request.got_tokens) return;
  if (metric == "ttft") samples->push_back(request.ttft_ms);
  if (metric == "client_queue_time") samples->push_back(request.queue_ms);
  if (metric == "itl")
    samples->insert(samples->end(), request.itl_ms.begin(), request.itl_ms.end());
  if (metric == "tpot" && request.tpot_ms.has_value()) samples->push_back(*request.tpot_ms);
  if (metric == "e2el" && request.e2el_ms.has_value()) samples->push_back(*request.e2el_ms);
}

double RateShare(const SavedRun& run, const SavedRequest& request, const std::string& name) {
  if (name == "request_throughput") return request.e2el_ms.has_value() ? 1 : 0;
  if (name == "request_goodput") return IsGood(run, request) ? 1 : 0;
  if (!request.got_tokens) return 0;
  return request.output_tokens + (name == "total_token_throughput" ? request.input_tokens : 0);
}

}  // namespace quire::bench
