// vllm.Inference, and the calls of vllm.Control that a sidecar needs: vLLM's own contract, as
// Dynamo calls it, over the same requests as quire.v1.
#pragma once

#include "server/call/service_methods.h"
#include "server/request/generate/serving_context.h"

namespace quire {

GrpcService VllmInferenceService(const ServingContext& context);
GrpcService VllmControlService(const ServingContext& context);

}  // namespace quire
