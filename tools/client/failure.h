// What to tell a user about a call that failed. Pure; any thread.
#pragma once

#include <string>

#include "grpcpp/support/status.h"

namespace quire::client {

const char* StatusName(grpc::StatusCode code);  // "INVALID_ARGUMENT", ...

// One sentence: what the server said, or why there is no server at `target` to say something
// (nothing listens, the name is unknown, something else than a Quire server answers).
std::string DescribeFailure(const grpc::Status& status, const std::string& target);

// 69 when no server could serve the call, else 1.
int FailureExitCode(const grpc::Status& status);

}  // namespace quire::client
