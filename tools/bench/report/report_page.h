// The page that `report` makes of saved results: a summary side by side, plots, and what each of
// them was. Pure.
#pragma once

#include <string>
#include <vector>

#include "kernels/base/progress.h"
#include "tools/bench/report/sections/named_result.h"

namespace quire::bench {

struct ReportContents {
  std::string title;
  std::vector<NamedResult> results;
};

// `progress`, if any, counts what takes a while.
std::string ReportPage(const ReportContents& contents, Progress* progress);

}  // namespace quire::bench
