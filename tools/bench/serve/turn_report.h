// Latencies and prefix hits of conversations, turn by turn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "tools/bench/load/request_record.h"
#include "tools/bench/serve/serve_report.h"

namespace quire::bench {

struct TurnReport {
  int64_t num_completed = 0;
  int64_t prompt_tokens = 0, cached_tokens = 0, output_tokens = 0;
  std::vector<double> ttft_ms, e2el_ms;

  double CachedShare() const;
};

// Values of completed requests, by turn: [0] is the first turn.
std::vector<TurnReport> MakeTurnReports(const std::vector<RequestRecord>& records,
                                        const ReportOptions& options);

// Both are empty if no conversation had a second turn.
std::string ToText(const std::vector<TurnReport>& turns);
nlohmann::ordered_json ToJson(const std::vector<TurnReport>& turns);

}  // namespace quire::bench
