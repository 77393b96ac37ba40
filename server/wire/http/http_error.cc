#include "server/wire/http/http_error.h"

#include "absl/strings/str_cat.h"
#include "server/text/json_text.h"

namespace quire {

namespace {

absl::string_view TypeOf(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    default:
      return http_status < 500 ? "invalid_request_error" : "server_error";
  }
}

absl::string_view CodeOf(int http_status) {
  switch (http_status) {
    case 401:
      return "invalid_api_key";
    case 429:
      return "rate_limit_exceeded";
    default:
      return "";
  }
}

std::string TextOrNull(absl::string_view text) { return text.empty() ? "null" : JsonString(text); }

}  // namespace

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return 400;
    default:
      return 500;
  }
}

std::string HttpErrorBody(int http_status, absl::string_view message, absl::string_view param,
                          absl::string_view code) {
  // Anthropic's clients look for the type of the whole.
  return absl::StrCat("{\"type\": \"error\", \"error\": {\"message\": ", JsonString(message),
                      ", \"type\": \"", TypeOf(http_status), "\", \"param\": ", TextOrNull(param),
                      ", \"code\": ", TextOrNull(code.empty() ? CodeOf(http_status) : code), "}}");
}

}  // namespace quire
