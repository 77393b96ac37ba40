// The plots of runs whose requests were saved: percentiles of each latency, what came when, and how
// long the first token took. Pure.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/report/plot.h"
#include "tools/bench/results/saved_run.h"

namespace quire::bench {

struct NamedRun {
  std::string name;
  size_t colour = 0;
  SavedRun run;
};

// None where no run has requests.
std::vector<Plot> PercentilePlots(const std::vector<NamedRun>& runs);
std::vector<Plot> TimePlots(const std::vector<NamedRun>& runs);

// "time to first token" of "ttft".
const char* MetricText(const std::string& metric);

}  // namespace quire::bench
