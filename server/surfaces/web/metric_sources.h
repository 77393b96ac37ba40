// The values of /metrics and /status, from the parts of the running server. Any thread.
#pragma once

#include <cstdint>

#include "server/observe/metrics/render_metrics.h"
#include "server/request/generate/serving_context.h"

namespace quire {

// The connections at the moment when somebody asks.
struct ConnectionLoad {
  int64_t num_connections = 0;
  int64_t num_held_bytes = 0;
};

MetricSources GatherMetrics(const ServingContext& context, const ConnectionLoad& load);

}  // namespace quire
