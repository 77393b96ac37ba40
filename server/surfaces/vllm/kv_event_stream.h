// SubscribeKvEvents: sends the events of the prefix cache to a router. It begins with the blocks
// that are there, unless the router goes on where it was. A router that reads too slowly to be told
// everything gets DATA_LOSS and begins again.
#pragma once

#include "server/call/grpc_call.h"
#include "server/request/generate/serving_context.h"

namespace quire {

GrpcMethod SubscribeKvEventsMethod(const ServingContext& context);

}  // namespace quire
