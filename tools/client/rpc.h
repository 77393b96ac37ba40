// What the client programs share: a channel with sensible limits, and one way to report a failed
// call.
#pragma once

#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"

namespace quire::client {

// Exit codes of the client programs; 64 is also CLI11's for bad usage.
inline constexpr int kOk = 0;
inline constexpr int kCallFailed = 1;
inline constexpr int kUsage = 64;
inline constexpr int kNotServing = 69;

inline constexpr char kDefaultTarget[] = "127.0.0.1:8000";

std::shared_ptr<grpc::Channel> Connect(const std::string& target);

// Prints "quire: NAME: message" to standard error and returns the exit code for it.
int ReportFailure(const grpc::Status& status, const std::string& target);

const char* StatusName(grpc::StatusCode code);  // "INVALID_ARGUMENT", ...

}  // namespace quire::client
