#include "tools/bench/report/run_plots.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tools/bench/results/figure.h"
#include "tools/bench/statistics.h"

namespace quire::bench {

namespace {

constexpr size_t kMostBins = 60;
constexpr size_t kMostDots = 1500;  // of a run

// 1, 2 or 5 times a power of ten, so that `seconds` are at most kMostBins of it.
double BinSeconds(double seconds) {
  double width = 0.001;
  for (int i = 0; seconds / width > kMostBins; ++i) width *= i % 3 == 1 ? 2.5 : 2;
  return width;
}

double EndOf(const SavedRun& run) {
  double end = 0;
  for (const SavedRequest& request : run.requests) end = std::max(end, request.end);
  return end;
}

// Output tokens a second in each bin.
std::vector<double> TokenRates(const SavedRun& run, double width, size_t num_bins) {
  std::vector<double> rates(num_bins, 0.0);
  const auto add = [&](double time, double tokens) {
    if (time >= 0)
      rates[std::min(static_cast<size_t>(time / width), num_bins - 1)] += tokens / width;
  };
  for (const SavedRequest& request : run.requests) {
    if (!request.got_tokens) continue;
    const double per_piece = request.output_tokens / static_cast<double>(1 + request.itl_ms.size());
    double time = request.first_token;
    add(time, per_piece);
    for (const float gap_ms : request.itl_ms) add(time += gap_ms / 1000, per_piece);
  }
  return rates;
}

// Requests in flight in each bin, on average.
std::vector<double> InFlight(const SavedRun& run, double width, size_t num_bins) {
  // What each bin has more than the one before it, of whole bins; and what bins have in part.
  std::vector<double> steps(num_bins + 1, 0.0), parts(num_bins, 0.0);
  for (const SavedRequest& request : run.requests) {
    const double begin = std::max(request.start, 0.0) / width,
                 end = std::max(request.end, 0.0) / width;
    const size_t first = std::min(static_cast<size_t>(begin), num_bins - 1);
    const size_t last = std::min(static_cast<size_t>(end), num_bins - 1);
    if (first == last) {
      parts[first] += std::max(0.0, end - begin);
      continue;
    }
    parts[first] += static_cast<double>(first + 1) - begin;
    parts[last] += end - static_cast<double>(last);
    steps[first + 1] += 1;
    steps[last] -= 1;
  }
  double whole = 0;
  for (size_t i = 0; i < num_bins; ++i) parts[i] += whole += steps[i];
  return parts;
}

using BinFunction = std::vector<double> (*)(const SavedRun&, double, size_t);

Plot BinnedPlot(const Results& runs, const std::string& title, const std::string& unit,
                BinFunction values_of) {
  double end = 0, most = 0;
  for (const NamedResult* one : runs) end = std::max(end, EndOf(one->run));
  const double width = BinSeconds(std::max(end, 0.01));
  Plot plot = {.title = title, .note = absl::StrCat("Averages of ", NumberText(width), " s")};
  plot.table = {.caption = title, .head = {"Seconds"}, .rows = {}};
  const auto num_bins = static_cast<size_t>(std::floor(end / width)) + 1;
  plot.table.rows.resize(num_bins);
  for (size_t i = 0; i < num_bins; ++i)
    plot.table.rows[i] = {NumberText(width * static_cast<double>(i))};
  for (const NamedResult* one : runs) {
    const std::vector<double> values = values_of(one->run, width, num_bins);
    const auto own_bins = static_cast<size_t>(std::floor(EndOf(one->run) / width)) + 1;
    Series series = {.name = one->name, .colour = one->colour};
    plot.table.head.push_back(one->name);
    for (size_t i = 0; i < num_bins; ++i) {
      plot.table.rows[i].push_back(i < own_bins ? NumberText(values[i]) : "");
      if (i < own_bins)
        series.points.emplace_back((static_cast<double>(i) + 0.5) * width, values[i]);
      most = std::max(most, values[i]);
    }
    plot.series.push_back(std::move(series));
  }
  plot.x = {.label = "seconds since the first request",
            .max = width * static_cast<double>(num_bins)};
  plot.y = LinearAxis(unit, most);
  return plot;
}

// Each k-th request, and all of the slowest.
std::vector<std::pair<double, double>> DotsOf(const SavedRun& run, bool* is_thinned) {
  std::vector<double> ttfts;
  for (const SavedRequest& request : run.requests) AppendSamples(request, "ttft", &ttfts);
  const size_t every = ttfts.size() / kMostDots + 1;
  const double slow_ms = Distribution(std::move(ttfts)).Percentile(99);
  std::vector<std::pair<double, double>> dots;
  size_t i = 0;
  for (const SavedRequest& request : run.requests) {
    if (!request.got_tokens) continue;
    if (i++ % every == 0 || (every > 1 && request.ttft_ms > slow_ms))
      dots.emplace_back(request.start, request.ttft_ms);
  }
  *is_thinned = *is_thinned || every > 1;
  return dots;
}

// Median and most of each tenth of the time.
void AddTenths(const NamedResult& one, double end, Table* table) {
  constexpr size_t kNumParts = 10;
  std::vector<std::vector<double>> parts(kNumParts);
  for (const SavedRequest& request : one.run.requests) {
    const auto part = static_cast<size_t>(std::max(0.0, request.start) / end * kNumParts);
    AppendSamples(request, "ttft", &parts[std::min(part, kNumParts - 1)]);
  }
  table->rows.push_back({Cell(one.name)});
  for (size_t i = 0; i < kNumParts; ++i) {
    const Summary summary = Summarize(parts[i]);
    const double begin = end * static_cast<double>(i) / kNumParts;
    table->rows.push_back(
        {absl::StrCat(NumberText(begin), " – ", NumberText(begin + end / kNumParts), " s"),
         absl::StrCat(summary.count), NumberText(summary.p50), NumberText(summary.max)});
  }
}

Plot ScatterPlot(const Results& runs) {
  Plot plot = {.title = "Time to first token by start"};
  plot.table = {.caption = plot.title,
                .head = {"Started within", "Requests", "Median, ms", "Most, ms"},
                .rows = {}};
  std::vector<double> values;
  double end = 0;
  bool is_thinned = false;
  for (const NamedResult* one : runs) {
    Series series = {.name = one->name, .colour = one->colour, .has_dots = true, .has_line = false};
    series.points = DotsOf(one->run, &is_thinned);
    for (const auto& [start, ttft_ms] : series.points) {
      values.push_back(ttft_ms);
      end = std::max(end, start);
    }
    plot.series.push_back(std::move(series));
  }
  end = end > 0 ? end : 1;
  for (const NamedResult* one : runs) AddTenths(*one, end, &plot.table);
  plot.note = is_thinned ? "A dot is a request: some of all, and all of the slowest 1 %"
                         : "A dot is a request";
  plot.x = {.label = "seconds since the first request", .max = end * 1.01};
  plot.y = LogAxis("ms", values);
  return plot;
}

Results WithRequests(const Results& runs) {
  Results some;
  for (const NamedResult* one : runs) {
    if (one->run.why_no_requests.empty()) some.push_back(one);
  }
  return some;
}

}  // namespace

const char* MetricText(const std::string& metric) {
  if (metric == "ttft") return "Time to first token";
  if (metric == "tpot") return "Time per output token";
  if (metric == "itl") return "Inter-token latency";
  return metric == "e2el" ? "End-to-end latency" : "Queued in the client";
}

std::vector<Plot> PercentilePlots(const Results& all) {
  const Results runs = WithRequests(all);
  std::vector<Plot> plots;
  for (const char* metric : {"ttft", "tpot", "itl", "e2el"}) {
    Plot plot = {.title = MetricText(metric)};
    plot.table = {.caption = absl::StrCat(plot.title, " by percentile, ms"),
                  .head = {"Percentile"},
                  .rows = {}};
    std::vector<double> shown;
    size_t most_samples = 0;
    std::vector<std::pair<const NamedResult*, Distribution>> distributions;
    for (const NamedResult* one : runs) {
      std::vector<double> samples;
      for (const SavedRequest& request : one->run.requests)
        AppendSamples(request, metric, &samples);
      most_samples = std::max(most_samples, samples.size());
      if (!samples.empty()) distributions.emplace_back(one, Distribution(std::move(samples)));
    }
    if (distributions.empty()) continue;
    plot.x = NinesAxis("percentile", most_samples);
    const double end = -std::log10(1 - plot.x.max / 100);
    for (const auto& [one, distribution] : distributions) {
      Series series = {.name = one->name, .colour = one->colour};
      for (int i = 0; i <= 150; ++i) {
        const double percent = 100 * (1 - std::pow(10, -end * i / 150));
        series.points.emplace_back(percent, distribution.Percentile(percent));
        shown.push_back(series.points.back().second);
      }
      plot.series.push_back(std::move(series));
      plot.table.head.push_back(one->name);
    }
    plot.y = LogAxis("ms", shown);
    for (const double percent : {0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0}) {
      std::vector<Cell> row = {percent == 0     ? "least"
                               : percent == 100 ? "most"
                                                : absl::StrCat("p", percent)};
      for (const auto& [one, distribution] : distributions)
        row.push_back(NumberText(distribution.Percentile(percent)));
      plot.table.rows.push_back(std::move(row));
    }
    plots.push_back(std::move(plot));
  }
  return plots;
}

std::vector<Plot> TimePlots(const Results& all) {
  const Results runs = WithRequests(all);
  if (runs.empty()) return {};
  return {BinnedPlot(runs, "Output tokens per second", "tokens/s", TokenRates),
          BinnedPlot(runs, "Requests in flight", "requests", InFlight), ScatterPlot(runs)};
}

}  // namespace quire::bench
