// One call of the standard health service, grpc.health.v1.Health/Check.
#pragma once

#include <string>

#include "grpcpp/grpcpp.h"

namespace quire::client {

struct HealthResult {
  bool serving = false;
  std::string answer;   // "SERVING", "NOT_SERVING", ...; empty if the call failed
  grpc::Status status;  // of the call
};

// `timeout_seconds` 0 means no limit. With `wait_for_ready` the call waits for a connection until
// the timeout; else it fails at once when there is none. (Retrying calls that fail at once is slow:
// between calls nobody drives the channel.)
HealthResult CheckHealth(grpc::Channel& channel, const std::string& service, double timeout_seconds,
                         bool wait_for_ready);

}  // namespace quire::client
