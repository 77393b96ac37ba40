#include "tools/bench/engine/engine_load.h"

#include <numeric>

namespace quire::bench {

LoadResult AsLoad(const std::vector<WorkItem>& items,
                  const std::vector<EngineRequestTimes>& times) {
  LoadResult result;
  result.effort.max_in_flight = static_cast<int64_t>(items.size());
  result.records.resize(items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const EngineRequestTimes& one = times[i];
    RequestRecord& record = result.records[i];
    record.outcome = one.finished ? Outcome::kCompleted : Outcome::kInterrupted;
    record.first_token = one.first_token_ms / 1000;
    record.last_token =
        record.first_token + std::accumulate(one.itl_ms.begin(), one.itl_ms.end(), 0.0) / 1000;
    record.ended = one.finished ? one.total_ms / 1000 : record.last_token;
    record.itl_ms.assign(one.itl_ms.begin(), one.itl_ms.end());
    record.num_tokens = record.completion_tokens = one.num_tokens;
    record.prompt_tokens = static_cast<int64_t>(items[i].prompt.size());
    record.cached_tokens = one.num_cached_tokens;
  }
  return result;
}

ReportOptions EngineReportOptions() { return {.metrics = {"ttft", "tpot", "itl", "e2el"}}; }

}  // namespace quire::bench
