// The plots of sweeps: what more load does to throughput and to latencies, and where it is too
// much. Pure.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tools/bench/report/plot.h"

namespace quire::bench {

struct NamedSweep {
  std::string name;
  size_t colour = 0;
  nlohmann::ordered_json json;
};

std::vector<Plot> SweepPlots(const std::vector<NamedSweep>& sweeps);
// The points of one.
Table SweepTable(const NamedSweep& sweep);

}  // namespace quire::bench
