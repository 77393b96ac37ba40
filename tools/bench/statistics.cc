#include "tools/bench/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"

namespace quire::bench {

Distribution::Distribution(std::vector<double> samples) : sorted_(std::move(samples)) {
  std::sort(sorted_.begin(), sorted_.end());
}

double Distribution::Mean() const {
  if (sorted_.empty()) return 0;
  return std::accumulate(sorted_.begin(), sorted_.end(), 0.0) / static_cast<double>(sorted_.size());
}

double Distribution::StandardDeviation() const {
  if (sorted_.empty()) return 0;
  const double mean = Mean();
  double sum = 0;
  for (const double sample : sorted_) sum += (sample - mean) * (sample - mean);
  return std::sqrt(sum / static_cast<double>(sorted_.size()));
}

double Distribution::Percentile(double percent) const {
  if (sorted_.empty()) return 0;
  const double rank = percent / 100 * static_cast<double>(sorted_.size() - 1);
  const auto below = static_cast<size_t>(std::floor(rank));
  const size_t above = std::min(below + 1, sorted_.size() - 1);
  return sorted_[below] + (rank - static_cast<double>(below)) * (sorted_[above] - sorted_[below]);
}

Summary Summarize(std::vector<double> samples) {
  const Distribution all(std::move(samples));
  return {.count = all.count(),
          .mean = all.Mean(),
          .min = all.Percentile(0),
          .p50 = all.Percentile(50),
          .p90 = all.Percentile(90),
          .p99 = all.Percentile(99),
          .max = all.Percentile(100)};
}

nlohmann::ordered_json ToJson(const Summary& summary) {
  const auto number = [&summary](double value) {
    return summary.count > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
  };
  return {{"count", summary.count},     {"mean", number(summary.mean)},
          {"min", number(summary.min)}, {"p50", number(summary.p50)},
          {"p90", number(summary.p90)}, {"p99", number(summary.p99)},
          {"max", number(summary.max)}};
}

std::string SummaryHeader(const std::string& unit) {
  return absl::StrFormat("%-28s %10s %10s %10s %10s %10s", unit, "mean", "p50", "p90", "p99",
                         "max");
}

std::string SummaryRow(const std::string& name, const Summary& summary) {
  std::string row = absl::StrFormat("%-28s", name);
  for (const double value : {summary.mean, summary.p50, summary.p90, summary.p99, summary.max}) {
    absl::StrAppendFormat(&row, " %10s",
                          summary.count > 0 ? absl::StrFormat("%.2f", value) : std::string("-"));
  }
  return row;
}

}  // namespace quire::bench
