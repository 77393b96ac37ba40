#include "tools/bench/engine/engine_load.h"

#include <algorithm>
#include <utility>

#include "nlohmann/json.hpp"

namespace quire::bench {

void AddToLoad(std::vector<RequestRecord> batch, double seconds, LoadResult* load) {
  load->effort.max_in_flight = std::max<int64_t>(load->effort.max_in_flight, std::ssize(batch));
  for (RequestRecord& record : batch) {
    for (double* time : {&record.scheduled, &record.sent, &record.first_token, &record.last_token,
                         &record.ended}) {
      *time += seconds;
    }
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
