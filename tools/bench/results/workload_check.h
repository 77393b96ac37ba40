// Checks whether two runs can be compared at all. Pure.
#pragma once

#include <string>
#include <vector>

#include "tools/bench/results/saved_run.h"

namespace quire::bench {

// A sentence for each thing that differs between the runs' workloads, servers or machines.
std::vector<std::string> DifferencesOf(const SavedRun& a, const SavedRun& b);
// A sentence for each thing that makes a run's figures doubtful: failures, an interruption, a
// client that was too slow, tokens that nobody counted, answers that ended early, too few requests
// for its percentiles.
std::vector<std::string> DoubtsOf(const SavedRun& run);

}  // namespace quire::bench
