// RenderStatus: the numbers of the status page, as JSON: values of this moment, and counters. The
// page asks twice and makes rates and percentiles of the counters. Any thread.
#pragma once

#include <string>
#include <vector>

#include "server/observe/log/recent_requests.h"
#include "server/observe/metrics/render_metrics.h"

namespace quire {

// `num_ended`: how often RenderRecentRequests would have had something new.
std::string RenderStatus(const MetricSources& sources, uint64_t num_ended);

std::string RenderRecentRequests(const std::vector<RecentRequests::Request>& requests);

}  // namespace quire
