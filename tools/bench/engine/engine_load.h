// Describes requests through an engine in this process like the load of a server, so that
// `throughput` and `latency` report the same figures as `serve`, under the same names. Plain
// values.
#pragma once

#include <vector>

#include "tools/bench/load/load.h"
#include "tools/bench/serve/serve_report.h"

namespace quire::bench {

// Adds requests that were all submitted at once, `seconds` after the load's beginning; their times
// count from then.
void AddToLoad(std::vector<RequestRecord> batch, double seconds, LoadResult* load);

// The options for the report of such a load, which has no client to queue in.
ReportOptions EngineReportOptions();

// The report like ServeReport's, without the figures of a client.
nlohmann::ordered_json EngineReportJson(const ServeReport& report, const LoadResult& load,
                                        const ReportOptions& options);

}  // namespace quire::bench
