// Runs requests through an Engine in this process: what `throughput` and `latency` measure.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/engine.h"
#include "tools/bench/workload.h"

namespace quire::bench {

// Opens an engine from the server's own flags (--model, --dtype, --max-num-seqs, ...).
absl::StatusOr<std::unique_ptr<Engine>> OpenEngine(const std::vector<std::string>& server_flags);

struct EngineRequestTimes {
  double first_token_ms;       // since it was submitted
  std::vector<double> itl_ms;  // between tokens
  double total_ms;
};

// Submits all items at once, greedy and ignoring end tokens, and waits for them. The status is the
// first refusal or failure.
absl::StatusOr<std::vector<EngineRequestTimes>> RunItems(Engine& engine,
                                                         const std::vector<WorkItem>& items);

}  // namespace quire::bench
