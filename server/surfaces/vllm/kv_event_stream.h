// SubscribeKvEvents: what becomes of the prefix cache, to a router. Begins with the blocks there
// are, unless the router goes on where it was; a router that reads too slowly to be told everything
// hears DATA_LOSS and begins again.
#pragma once

#include "server/call/grpc_call.h"
#include "server/request/generate/serving_context.h"

namespace quire {

GrpcMethod SubscribeKvEventsMethod(const ServingContext& context);

}  // namespace quire
