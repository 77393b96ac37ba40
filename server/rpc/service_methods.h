// The methods of quire.v1's services. Each holds pointers to the context's parts.
#pragma once

#include <vector>

#include "server/generate/serving_context.h"
#include "server/rpc/grpc_call.h"

namespace quire {

std::vector<GrpcMethod> InferenceMethods(const ServingContext& context);
std::vector<GrpcMethod> AdminMethods(const ServingContext& context);

}  // namespace quire
