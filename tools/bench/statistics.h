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

// Percentiles by linear interpolation between closest ranks (numpy's default); zeros for no
// samples.
Summary Summarize(std::vector<double> samples);

nlohmann::ordered_json ToJson(const Summary& summary);
// "name   mean  p50  p90  p99  max", aligned with SummaryHeader().
std::string SummaryRow(const std::string& name, const Summary& summary);
std::string SummaryHeader(const std::string& unit);

}  // namespace quire::bench
