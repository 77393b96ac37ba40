#include "tools/bench/engine/engine_load.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "nlohmann/json.hpp"

namespace quire::bench {

void AddToLoad(const std::vector<WorkItem>& items, const std::vector<EngineRequestTimes>& times,
               double seconds, LoadResult* load) {
  load->effort.max_in_flight =
      std::max(load->effort.max_in_flight, static_cast<int64_t>(items.size()));
  for (size_t i = 0; i < items.size(); ++i) {
    const EngineRequestTimes& one = times[i];
    RequestRecord record;
    record.outcome = one.finished ? Outcome::kCompleted : Outcome::kInterrupted;
    record.scheduled = record.sent = seconds;
    record.first_token = seconds + one.first_token_ms / 1000;
    record.last_token =
        record.first_token + std::accumulate(one.itl_ms.begin(), one.itl_ms.end(), 0.0) / 1000;
    record.ended = one.finished ? seconds + one.total_ms / 1000 : record.last_token;
    record.itl_ms.assign(one.itl_ms.begin(), one.itl_ms.end());
    record.num_tokens = record.completion_tokens = one.num_tokens;
    record.prompt_tokens = static_cast<int64_t>(items[i].prompt.size());
    record.cached_tokens = one.num_cached_tokens;
    record.is_counted = true;
    load->records.push_back(std::move(record));
  }
}

ReportOptions EngineReportOptions() { return {.metrics = {"ttft", "tpot", "itl", "e2el"}}; }

nlohmann::ordered_json EngineReportJson(const ServeReport& report, const LoadResult& load,
                                        const ReportOptions& options) {
  nlohmann::ordered_json json = ToJson(report, load.effort, options);
  json.erase("client");
  return json;
}

}  // namespace quire::bench
