// The services of quire.v1. Their methods hold pointers to the context's parts.
#pragma once

#include <string>
#include <vector>

#include "server/call/grpc_call.h"
#include "server/request/generate/serving_context.h"

namespace quire {

struct GrpcService {
  std::string name;  // in full
  std::vector<GrpcMethod> methods;
};

GrpcService InferenceService(const ServingContext& context);
GrpcService AdminService(const ServingContext& context);

}  // namespace quire
