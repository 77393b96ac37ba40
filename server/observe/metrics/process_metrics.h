// The metrics that Prometheus' own clients have for every process: CPU time, memory, descriptors.
// Any thread.
#pragma once

#include <cstdint>

#include "absl/time/time.h"
#include "server/observe/metrics/metric_text.h"

namespace quire {

// Memory of the process that is in RAM; 0: the system does not tell.
int64_t ResidentBytes();

// Leaves out values that the system does not tell.
void AddProcessMetrics(absl::Time start_time, MetricText* text);

}  // namespace quire
