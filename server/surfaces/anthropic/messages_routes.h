// Anthropic's API: /v1/messages, whole or as a stream of events, and /v1/messages/count_tokens. The
// routes hold pointers to the context's parts. Any thread.
#pragma once

#include <vector>

#include "server/call/http_route.h"
#include "server/request/generate/serving_context.h"

namespace quire {

std::vector<HttpRoute> MessagesRoutes(const ServingContext& context);

}  // namespace quire
