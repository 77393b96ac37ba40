// The heat of steps: how long the gaps between tokens were, over the time of a run. Pure.
#pragma once

#include <vector>

#include "tools/bench/report/plots/plot.h"
#include "tools/bench/report/sections/named_result.h"

namespace quire::bench {

// One of each run whose requests were saved and have gaps.
std::vector<Plot> HeatPlots(const Results& runs);

}  // namespace quire::bench
