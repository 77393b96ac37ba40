// The route /metrics, for Prometheus and for routers that balance by load.
#pragma once

#include <functional>
#include <optional>

#include "server/call/http_route.h"
#include "server/request/generate/serving_context.h"
#include "server/surfaces/web/metric_sources.h"

namespace quire {

// `role`: who may call it, as in HttpRoute. `connections` is called on the loops' threads.
HttpRoute MetricsRoute(const ServingContext& context, std::optional<Role> role,
                       std::function<ConnectionLoad()> connections);

}  // namespace quire
