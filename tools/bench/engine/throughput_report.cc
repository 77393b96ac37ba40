#include "tools/bench/engine/throughput_report.h"

#include "nlohmann/json.hpp"
#include "tools/bench/statistics.h"

namespace quire::bench {

ThroughputReport MakeThroughputReport(const std::vector<WorkItem>& items,
                                      const std::vector<EngineRequestTimes>& times,
                                      double seconds) {
  ThroughputReport report;
  report.num_requests = static_cast<int64_t>(items.size());
  report.seconds = seconds;
  for (size_t i = 0; i < items.size(); ++i) {
    const EngineRequestTimes& one = times[i];
    if (one.finished) ++report.num_finished;
    if (one.num_tokens == 0) continue;
    report.prompt_tokens += static_cast<int64_t>(items[i].prompt.size());
    report.cached_tokens += one.num_cached_tokens;
    report.output_tokens += one.num_tokens;
    report.first_token_ms.push_back(one.first_token_ms);
    report.itl_ms.insert(report.itl_ms.end(), one.itl_ms.begin(), one.itl_ms.end());
  }
  return report;
}

nlohmann::ordered_json ToJson(const ThroughputReport& report) {
  const double seconds = report.seconds > 0 ? report.seconds : 1;
  const auto per_second = [&](int64_t count) { return static_cast<double>(count) / seconds; };
  return {{"requests", report.num_requests},
          {"completed", report.num_finished},
          {"seconds", report.seconds},
          {"prompt_tokens", report.prompt_tokens},
          {"cached_tokens", report.cached_tokens},
          {"output_tokens", report.output_tokens},
          {"requests_per_s", per_second(report.num_finished)},
          {"output_tokens_per_s", per_second(report.output_tokens)},
          {"total_tokens_per_s", per_second(report.output_tokens + report.prompt_tokens)},
          {"ttft_ms", ToJson(Summarize(report.first_token_ms))},
          {"itl_ms", ToJson(Summarize(report.itl_ms))}};
}

}  // namespace quire::bench
