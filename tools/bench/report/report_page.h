// The page that `report` makes of saved results: a summary side by side, plots, and what each of
// them was. Pure.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/report/sections/named_result.h"

namespace quire::bench {

struct ReportContents {
  std::string title;
  std::vector<NamedResult> results;
};

std::string ReportPage(const ReportContents& contents);

}  // namespace quire::bench
