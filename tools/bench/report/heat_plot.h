// The heat of steps: how long the gaps between tokens were, over the time of a run. Pure.
#pragma once

#include <vector>

#include "tools/bench/report/run_plots.h"

namespace quire::bench {

// One of each run whose requests were saved and have gaps.
std::vector<Plot> HeatPlots(const std::vector<NamedRun>& runs);

}  // namespace quire::bench
