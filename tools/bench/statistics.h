// Summaries of samples: mean, median, percentiles; as a table row and as JSON.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace quire::bench {

// All samples, sorted, so that no percentile is an estimate. Zeros for none.
class Distribution {
 public:
  explicit Distribution(std::vector<double> samples);

  size_t count() const { return sorted_.size(); }
  double Mean() const;
  // The deviation of the samples as a whole, not of a population from which they were drawn
  // (numpy's default).
  double StandardDeviation() const;
  // By linear interpolation between closest ranks (numpy's default).
  double Percentile(double percent) const;

 private:
  std::vector<double> sorted_;
};

// Count, mean, min, p50, p90, p99 and max; without samples the count is the only number, and the
// others are null.
nlohmann::ordered_json ToJson(const Distribution& samples);
// "name   mean  p50  p90  p99  max", aligned with SummaryHeader(); "-" without samples.
std::string SummaryRow(const std::string& name, const Distribution& samples);
std::string SummaryHeader(const std::string& unit);

}  // namespace quire::bench
