// OpenAI's API: /v1/completions, /v1/chat/completions, and vLLM's /tokenize and /detokenize beside
// it. The routes hold pointers to the context's parts. Any thread.
#pragma once

#include <vector>

#include "server/call/http_route.h"
#include "server/request/generate/serving_context.h"

namespace quire {

std::vector<HttpRoute> OpenAiRoutes(const ServingContext& context);

}  // namespace quire
