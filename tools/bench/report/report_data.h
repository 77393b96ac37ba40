// The data of a report's page: its results as JSON. Each run has its requests and the doubts about
// it. Each figure has the run that is clearly the best. Pure.
#pragma once

#include <string>
#include <vector>

#include "kernels/base/progress.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/results/saved_run.h"

namespace quire::bench {

inline constexpr size_t kMostResults = 8;  // as many as the page has colours

struct NamedResult {
  std::string name;
  std::string kind = "run";  // as KindOf has it
  SavedRun run = {};         // for other kinds only its path and its JSON
};

// Marks the best of several runs if `compare` calls it clear. That takes a while; `progress`, if
// any, counts it.
nlohmann::ordered_json ReportData(const std::vector<NamedResult>& results, Progress* progress);

}  // namespace quire::bench
