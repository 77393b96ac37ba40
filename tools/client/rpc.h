// What the client programs share: a channel with sensible limits, and one way to report a failed
// call.
#pragma once

#include <memory>
#include <string>

#include "grpcpp/grpcpp.h"
#include "tools/client/failure.h"
#include "tools/client/target.h"

namespace CLI {
class App;
}

namespace quire::client {

// Exit codes of the client programs.
inline constexpr int kOk = 0;
inline constexpr int kCallFailed = 1;
inline constexpr int kUsage = 64;
inline constexpr int kNotServing = 69;
inline constexpr int kInterrupted = 130;

// `target` is HOST:PORT, after https:// for TLS. Calls carry the key of QUIRE_API_KEY, if there is
// one. Nothing is connected yet: a call does that.
std::shared_ptr<grpc::Channel> Connect(const std::string& target);

// Prints "quire: " and the sentence of DescribeFailure to standard error; returns the exit code.
int ReportFailure(const grpc::Status& status, const std::string& target);

// A flag for seconds: 0 or more, at most a year.
void AddTimeoutFlag(CLI::App& command, const std::string& name, const std::string& description,
                    double* seconds);

// Gives the call so many seconds; 0 means as long as it takes.
void SetTimeout(double seconds, grpc::ClientContext* context);

}  // namespace quire::client
