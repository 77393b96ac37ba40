// What Prometheus' own clients say of every process: CPU time, memory, descriptors. Any thread.
#pragma once

#include "absl/time/time.h"
#include "server/metrics/metric_text.h"

namespace quire {

// Leaves out what the system does not tell.
void AddProcessMetrics(absl::Time start_time, MetricText* text);

}  // namespace quire
