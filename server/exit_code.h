// Exit codes of quire-server: part of its contract with whoever supervises it. Any thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace quire {

enum class ExitCode : int {
  kOk = 0,
  kInterrupted = 1,   // a second signal ended the process before its streams had finished
  kUsage = 64,        // bad arguments or configuration
  kModelFiles = 66,   // model files unreadable or invalid
  kUnavailable = 69,  // device or port unavailable, or too little memory
  kEngineFailure = 70,
};

// The exit code for a start that failed with `status`: UNAVAILABLE and RESOURCE_EXHAUSTED are the
// machine's, NOT_FOUND, INVALID_ARGUMENT and UNIMPLEMENTED the model folder's, others ours.
ExitCode StartFailureCode(const absl::Status& status);

// Prints one line, "quire-server: <sentence>", to standard error; line breaks become "; ".
void PrintFailure(const std::string& sentence);

}  // namespace quire
