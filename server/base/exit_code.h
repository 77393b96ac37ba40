// Exit codes of quire-server: part of its contract with the program that supervises it. Any thread.
#pragma once

#include "absl/status/status.h"

namespace quire {

enum class ExitCode : int {
  kOk = 0,
  kInterrupted = 1,   // a second signal ended the process before its streams had finished
  kUsage = 64,        // bad flags, environment variables or configuration
  kModelFiles = 66,   // model files unreadable or invalid
  kUnavailable = 69,  // device, port, hub or disk unavailable, or too little memory
  kEngineFailure = 70,
};

// The exit code for a start that failed with `status`. Who is at fault:
//   OUT_OF_RANGE                               a setting asks for what this model or device does
//                                              not allow; the sentence names its flag
//   NOT_FOUND, INVALID_ARGUMENT, UNIMPLEMENTED the model's files
//   UNAVAILABLE, RESOURCE_EXHAUSTED            the machine, or memory: also when a setting, such as
//                                              --kv-cache-memory-bytes, allows too little of it
//   others                                     the server
ExitCode StartFailureCode(const absl::Status& status);

}  // namespace quire
