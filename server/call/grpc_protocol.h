// The small pieces of gRPC over HTTP/2, as github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
// has it. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/wire/http/http_exchange.h"

namespace quire {

// "application/grpc", perhaps with "+proto" or parameters.
bool IsGrpcContentType(absl::string_view content_type);

// The value of a grpc-timeout header, such as "100m"; nothing if it is not valid.
std::optional<absl::Duration> ParseGrpcTimeout(absl::string_view text);

// grpc-status, grpc-message and, for refusals that say when to come back, grpc-retry-pushback-ms.
// The message is the status' own sentence after the field to blame, if there is one
// ("sampling.top_p: ...").
HeaderList StatusTrailers(const absl::Status& status);

}  // namespace quire
