// Tells a user about a call that failed. Any thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace quire::client {

// One sentence: the server's message, or the reason why no Quire server answers at `target`
// (nothing listens, the name is unknown, or another kind of server answers).
std::string DescribeFailure(const absl::Status& status, const std::string& target);

// 69 when no server could serve the call, else 1.
int FailureExitCode(const absl::Status& status);

// Prints "quire: " and the sentence to standard error; returns the exit code.
int ReportFailure(const absl::Status& status, const std::string& target);

// Prints "quire: " and the problem of the command line to standard error; returns 64.
int Refuse(const std::string& problem);

}  // namespace quire::client
