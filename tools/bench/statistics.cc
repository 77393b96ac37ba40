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

nlohmann::ordered_json ToJson(const Distribution& samples) {
  nlohmann::ordered_json json = {
      {"count", samples.count()}, {"mean", nullptr}, {"min", nullptr}, {"p50", nullptr},
      {"p90", nullptr},           {"p99", nullptr},  {"max", nullptr}};
  if (samples.count() == 0) return json;
  json["mean"] = samples.Mean();
  for (const auto& [key, percent] :
       {std::pair("min", 0), {"p50", 50}, {"p90", 90}, {"p99", 99}, {"max", 100}}) {
    json[key] = samples.Percentile(percent);
  }
  return json;
}

std::string SummaryHeader(const std::string& unit) {
  return absl::StrFormat("%-28s %10s %10s %10s %10s %10s", unit, "mean", "p50", "p90", "p99",
                         "max");
}

std::string SummaryRow(const std::string& name, const Distribution& samples) {
  std::string row = absl::StrFormat("%-28s", name);
  for (const double value : {samples.Mean(), samples.Percentile(50), samples.Percentile(90),
                             samples.Percentile(99), samples.Percentile(100)}) {
    absl::StrAppendFormat(&row, " %10s",
                          samples.count() > 0 ? absl::StrFormat("%.2f", value) : std::string("-"));
  }
  return row;
}

}  // namespace quire::bench
