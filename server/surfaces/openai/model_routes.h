// /v1/models, /v1/models/NAME, and /tokenizer_info. Any thread.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "server/call/http_route.h"
#include "server/request/generate/serving_context.h"

namespace quire {

std::vector<HttpRoute> ModelRoutes(const ServingContext& context);

// /tokenizer_info, for --enable-tokenizer-info-endpoint. At start: reads the model's
// tokenizer_config.json. INVALID_ARGUMENT names the file if it cannot be read.
absl::StatusOr<HttpRoute> TokenizerInfoRoute(const ServingContext& context);

}  // namespace quire
