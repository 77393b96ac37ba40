// The data of the page at /: /status, and /status/requests for admins.
#pragma once

#include <functional>
#include <optional>

#include "server/call/http_route.h"
#include "server/request/generate/serving_context.h"
#include "server/surfaces/web/metric_sources.h"

namespace quire {

// `role` and `connections` as in MetricsRoute: this route tells nothing that /metrics does not.
HttpRoute StatusRoute(const ServingContext& context, std::optional<Role> role,
                      std::function<ConnectionLoad()> connections);

// The requests that ended last, of all principals: only for admins.
HttpRoute RecentRequestsRoute(const ServingContext& context);

}  // namespace quire
