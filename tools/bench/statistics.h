// Summaries of samples: mean, median, percentiles; as a table row and as JSON.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"

namespace quire::bench {

struct Summary {
  size_t count = 0;
  double mean = 0, min = 0, p50 = 0, p90 = 0, p99 = 0, max = 0;
};

// All samples, sorted, so that no percentile is an estimate. Zeros for none.
class Distribution {
 public:
  explicit Distribution(std::vector<double> samples);

  size_t count() const { return sorted_.size(); }
  double Mean() const;
  // Of the samples as a whole, not of a population that they were drawn from (numpy's default).
  double StandardDeviation() const;
  // By linear interpolation between closest ranks (numpy's default).
  double Percentile(double percent) const;

 private:
  std::vector<double> sorted_;
};

Summary Summarize(std::vector<double> samples);

// Of no samples the count alone: null in JSON, "-" in the row.
nlohmann::ordered_json ToJson(const Summary& summary);
// "name   mean  p50  p90  p99  max", aligned with SummaryHeader().
std::string SummaryRow(const std::string& name, const Summary& summary);
std::string SummaryHeader(const std::string& unit);

}  // namespace quire::bench
