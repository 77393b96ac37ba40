// gRPC's own log lines. They are meant for gRPC's developers, so they stay off the terminal unless
// GRPC_VERBOSITY asks for them; but only they tell why TLS failed. Any thread.
#pragma once

#include <string>

namespace quire::client {

// From the first call on, errors that gRPC logs are kept instead of printed.
void KeepGrpcErrors();

// The last errors that gRPC logged, joined; bounded. Empty when nothing was kept.
std::string KeptGrpcErrors();

}  // namespace quire::client
