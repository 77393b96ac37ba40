// Generate and GenerateOnce over gRPC: each call gets the answer to its request.
#pragma once

#include "server/call/grpc_call.h"
#include "server/request/generate/serving_context.h"

namespace quire {

GrpcMethod GenerateMethod(const ServingContext& serving);
GrpcMethod GenerateOnceMethod(const ServingContext& serving);

}  // namespace quire
