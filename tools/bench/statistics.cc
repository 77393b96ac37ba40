#include "tools/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace quire::bench {

namespace {

double Percentile(const std::vector<double>& sorted, double share) {
  const double rank = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(std::floor(rank));
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (rank - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Summary Summarize(std::vector<double> samples) {
  Summary summary;
  summary.count = samples.size();
  if (samples.empty()) return summary;
  std::sort(samples.begin(), samples.end());
  summary.mean =
      std::accumulate(samples.begin(), samples.end(), 0.0) / static_cast<double>(samples.size());
  summary.min = samples.front();
  summary.p50 = Percentile(samples, 0.5);
  summary.p90 = Percentile(samples, 0.9);
  summary.p99 = Percentile(samples, 0.99);
  summary.max = samples.back();
  return summary;
}

nlohmann::ordered_json ToJson(const Summary& summary) {
  return {{"count", summary.count}, {"mean", summary.mean}, {"min", summary.min},
          {"p50", summary.p50},     {"p90", summary.p90},   {"p99", summary.p99},
          {"max", summary.max}};
}

std::string SummaryHeader(const std::string& unit) {
  return absl::StrFormat("%-28s %10s %10s %10s %10s %10s", unit, "mean", "p50", "p90", "p99",
                         "max");
}

std::string SummaryRow(const std::string& name, const Summary& summary) {
  return absl::StrFormat("%-28s %10.2f %10.2f %10.2f %10.2f %10.2f", name, summary.mean,
                         summary.p50, summary.p90, summary.p99, summary.max);
}

}  // namespace quire::bench
