// What `throughput` makes of the times of its requests. Plain values.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "tools/bench/engine/engine_run.h"
#include "tools/bench/workload.h"

namespace quire::bench {

struct ThroughputReport {
  int64_t num_requests = 0;
  int64_t num_finished = 0;                                         // less when interrupted
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;  // of requests with tokens
  std::vector<double> first_token_ms, itl_ms;
  double seconds = 0;
};

// `times` are those of `items`, in order.
ThroughputReport MakeThroughputReport(const std::vector<WorkItem>& items,
                                      const std::vector<EngineRequestTimes>& times, double seconds);
nlohmann::ordered_json ToJson(const ThroughputReport& report);

}  // namespace quire::bench
