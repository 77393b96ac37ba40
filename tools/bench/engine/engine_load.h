// Requests through an engine in this process as the load of a server, so that `throughput` says of
// them what `serve` says, under the same names. Plain values.
#pragma once

#include <vector>

#include "tools/bench/engine/engine_run.h"
#include "tools/bench/load/load.h"
#include "tools/bench/serve/serve_report.h"

namespace quire::bench {

// `times` are those of `items`, in order, all submitted at once.
LoadResult AsLoad(const std::vector<WorkItem>& items, const std::vector<EngineRequestTimes>& times);

// What is reported of such a load: there is no client to queue in.
ReportOptions EngineReportOptions();

}  // namespace quire::bench
