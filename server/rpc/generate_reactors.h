// The gRPC side of Generate and GenerateOnce: each reactor is one call and the sink of its request.
// gRPC's threads and the output thread call them; they delete themselves when gRPC is done.
#pragma once

#include <grpcpp/support/server_callback.h>

#include "server/generate/serving_context.h"

namespace quire {

// Each returns the reactor of a new call with `request`, a serialized quire.v1.GenerateRequest.
grpc::ServerWriteReactor<grpc::ByteBuffer>* StartGenerate(const ServingContext& serving,
                                                          grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer& request);
grpc::ServerUnaryReactor* StartGenerateOnce(const ServingContext& serving,
                                            grpc::CallbackServerContext* context,
                                            const grpc::ByteBuffer& request,
                                            grpc::ByteBuffer* answer);

}  // namespace quire
