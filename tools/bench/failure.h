// How quire-bench ends when something is wrong: one line on standard error, and an exit code that
// travels in the status. Any thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace quire::bench {

// The codes of quire-server (server/base/exit_code.h), and the shells' code for an interrupted
// program.
inline constexpr int kFailed = 1;  // some requests failed
inline constexpr int kUsage = 64;
inline constexpr int kNoInput = 66;  // files of a model or of results are missing or wrong
inline constexpr int kUnavailable = 69;
inline constexpr int kEngineFailure = 70;
inline constexpr int kInterruptedExit = 130;

// `status`, which is not OK, for Fail to end with `exit_code`.
absl::Status WithExitCode(int exit_code, absl::Status status);
// INVALID_ARGUMENT that ends with kUsage.
absl::Status UsageError(const std::string& message);
// The code that WithExitCode gave; kEngineFailure for a status without one.
int ExitCodeOf(const absl::Status& status);

// Prints "quire-bench: message" in one line and returns ExitCodeOf(status).
int Fail(const absl::Status& status);
// "quire-bench: warning: message" on standard error.
void Warn(const std::string& message);

}  // namespace quire::bench
