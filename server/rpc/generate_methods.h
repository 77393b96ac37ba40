// Generate and GenerateOnce over gRPC: each call is the sink of its request.
#pragma once

#include "server/generate/serving_context.h"
#include "server/rpc/grpc_call.h"

namespace quire {

GrpcMethod GenerateMethod(const ServingContext& serving);
GrpcMethod GenerateOnceMethod(const ServingContext& serving);

}  // namespace quire
