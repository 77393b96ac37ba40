// vllm.grpc.engine.VllmEngine: the contract by which the SMG router and llm-d's endpoint picker
// drive an engine, over the same requests as quire.v1. A feature that Quire does not have is
// UNIMPLEMENTED with a sentence.
#pragma once

#include "server/call/service_methods.h"
#include "server/request/generate/serving_context.h"

namespace quire {

GrpcService VllmEngineService(const ServingContext& context);

}  // namespace quire
