// One call of the standard health service, grpc.health.v1.Health/Check.
#pragma once

#include <string>

#include "grpcpp/grpcpp.h"

namespace quire::client {

struct HealthResult {
  bool serving = false;
  std::string reason;  // why not
};

HealthResult CheckHealth(grpc::Channel& channel, const std::string& service,
                         double timeout_seconds);

}  // namespace quire::client
