// The routes for probes: /health, /ping and /ready are 200 while the server takes requests, /live
// until its engine has failed; /version. Any thread.
#pragma once

#include <vector>

#include "server/call/http_route.h"
#include "server/request/generate/serving_context.h"

namespace quire {

std::vector<HttpRoute> HealthRoutes(const ServingContext& context);

}  // namespace quire
