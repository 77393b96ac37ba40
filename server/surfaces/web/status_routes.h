// What the page at / shows: /status, and /status/requests for admins.
#pragma once

#include <functional>
#include <optional>

#include "server/call/http_route.h"
#include "server/request/generate/serving_context.h"
#include "server/surfaces/web/metric_sources.h"

namespace quire {

// `role` and `connections` as of MetricsRoute: it tells nothing that /metrics does not.
HttpRoute StatusRoute(const ServingContext& context, std::optional<Role> role,
                      std::function<ConnectionLoad()> connections);

// The requests that ended last, whosever they were: for admins alone.
HttpRoute RecentRequestsRoute(const ServingContext& context);

}  // namespace quire
