// The plots of sweeps: what more load does to throughput and to latencies, and where it is too
// much. Pure.
#pragma once

#include <vector>

#include "tools/bench/report/plots/plot.h"
#include "tools/bench/report/sections/named_result.h"

namespace quire::bench {

std::vector<Plot> SweepPlots(const Results& sweeps);
// The points of one.
Table SweepTable(const NamedResult& sweep);

}  // namespace quire::bench
