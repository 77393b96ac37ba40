// What to tell a user about a call that failed. Any thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace quire::client {

// One sentence: what the server said, or why there is no server at `target` to say something
// (nothing listens, the name is unknown, something else than a Quire server answers).
std::string DescribeFailure(const absl::Status& status, const std::string& target);

// 69 when no server could serve the call, else 1.
int FailureExitCode(const absl::Status& status);

// Prints "quire: " and the sentence to standard error; returns the exit code.
int ReportFailure(const absl::Status& status, const std::string& target);

// Prints "quire: " and what is wrong with the command line to standard error; returns 64.
int Refuse(const std::string& problem);

}  // namespace quire::client
