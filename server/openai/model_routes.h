// /v1/models, /v1/models/NAME. Any thread.
#pragma once

#include <vector>

#include "server/generate/serving_context.h"
#include "server/web/http_route.h"

namespace quire {

std::vector<HttpRoute> ModelRoutes(const ServingContext& context);

}  // namespace quire
