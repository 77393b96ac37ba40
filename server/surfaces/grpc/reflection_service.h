// grpc.reflection.v1 and v1alpha: the names of the services, and the files that describe them, so
// that grpcurl and the like need no .proto files. Any thread.
#pragma once

#include <string>
#include <vector>

#include "server/call/grpc_call.h"

namespace quire {

// `services` are the full names that are listed, beside reflection itself.
std::vector<GrpcMethod> ReflectionMethods(std::vector<std::string> services);

}  // namespace quire
