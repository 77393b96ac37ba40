// Errors as HTTP clients expect them: a status, and OpenAI's JSON with a sentence. Pure; any
// thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace quire {

// What HTTP calls such an error. A feature that is missing is the request's mistake (400): clients
// repeat requests that end with 5xx.
int HttpStatusOf(absl::StatusCode code);

// {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}. An empty `param` is null;
// an empty `code` is what OpenAI calls every error of this status, or null.
std::string HttpErrorBody(int http_status, absl::string_view message, absl::string_view param,
                          absl::string_view code);

}  // namespace quire
