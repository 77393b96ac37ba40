// The plots of runs whose requests were saved: percentiles of each latency, what came when, and how
// long the first token took. Pure.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/report/plots/plot.h"
#include "tools/bench/report/sections/named_result.h"

namespace quire::bench {

// None where no run has requests.
std::vector<Plot> PercentilePlots(const Results& runs);
std::vector<Plot> TimePlots(const Results& runs);

// "time to first token" of "ttft".
const char* MetricText(const std::string& metric);

}  // namespace quire::bench
