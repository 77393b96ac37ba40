// /v1/responses: answers that nobody stores. The routes hold pointers to the context's parts. Any
// thread.
#pragma once

#include <vector>

#include "server/call/http_route.h"
#include "server/request/generate/serving_context.h"

namespace quire {

std::vector<HttpRoute> ResponsesRoutes(const ServingContext& context);

}  // namespace quire
