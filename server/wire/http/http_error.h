// Errors as HTTP clients expect them: a status, and OpenAI's JSON with a sentence. Pure; any
// thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace quire {

// The HTTP status for such an error. A missing feature is the request's mistake (400), because
// clients repeat requests that end with 5xx.
int HttpStatusOf(absl::StatusCode code);

// {"error": {"message": ..., "type": ..., "param": ..., "code": ...}}. An empty `param` is null. An
// empty `code` is OpenAI's name for every error of this status, or null.
std::string HttpErrorBody(int http_status, absl::string_view message, absl::string_view param,
                          absl::string_view code);

}  // namespace quire
