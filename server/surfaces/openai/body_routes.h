// Routes that take JSON bodies. They read them where this holds up nobody (call/read_request.h).
// Any thread.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "server/call/http_call.h"
#include "server/call/http_route.h"
#include "server/request/generate/serving_context.h"

namespace quire {

// A route that generates. If the engine has no room for a caller, the caller is refused
// before the body is read. `start` starts requests of the caller, or returns the error because of
// which none begins.
using StartRequest = std::function<absl::Status(const HttpCallRef& call, const Caller& caller,
                                                const std::string& body)>;
HttpRoute GenerateRoute(std::string path, const ServingContext& context, StartRequest start);

// A route that answers at once with JSON.
HttpRoute ConvertRoute(
    std::string path, const ServingContext& context,
    std::function<absl::StatusOr<std::string>(const HttpCall& call, const std::string& body)>
        convert);

}  // namespace quire
