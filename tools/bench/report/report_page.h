// The page that `report` makes of saved results: a summary side by side, plots, and what each run
// was. Pure.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/report/run_plots.h"
#include "tools/bench/report/sweep_plots.h"

namespace quire::bench {

struct ReportContents {
  std::string title;
  std::vector<NamedRun> runs;
  std::vector<NamedSweep> sweeps;
};

std::string ReportPage(const ReportContents& contents);

}  // namespace quire::bench
