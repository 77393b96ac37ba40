// Requests through an engine in this process as the load of a server, so that `throughput` and
// `latency` say of them what `serve` says, under the same names. Plain values.
#pragma once

#include <vector>

#include "tools/bench/load/load.h"
#include "tools/bench/serve/serve_report.h"

namespace quire::bench {

// Adds requests that were all submitted at once, `seconds` after the load's beginning; their times
// count from then.
void AddToLoad(std::vector<RequestRecord> batch, double seconds, LoadResult* load);

// What is reported of such a load: there is no client to queue in.
ReportOptions EngineReportOptions();

// The report as ServeReport's, without what is of a client.
nlohmann::ordered_json EngineReportJson(const ServeReport& report, const LoadResult& load,
                                        const ReportOptions& options);

}  // namespace quire::bench
