// What `serve` makes of the records of its load: counts, rates and latencies; as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "tools/bench/serve/load.h"

namespace quire::bench {

struct ServeReport {
  // Samples of all requests that got tokens; tpot and e2e only of those that completed.
  std::vector<double> ttft_ms, tpot_ms, itl_ms, e2e_ms;
  int64_t num_completed = 0;
  int64_t num_failed = 0;
  int64_t num_unfinished = 0;  // sent, and cancelled when the run was interrupted
  int64_t num_unsent = 0;      // likewise
  int64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;  // of what got tokens
  double seconds = 0;  // from the first request to the last end
  grpc::Status first_failure;
};

ServeReport MakeServeReport(const std::vector<RequestRecord>& records);
nlohmann::ordered_json ToJson(const ServeReport& report);
std::string ToText(const ServeReport& report);

}  // namespace quire::bench
