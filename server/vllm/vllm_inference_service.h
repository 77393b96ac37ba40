// vllm.Inference and those calls of vllm.Control that a sidecar needs: vLLM's own contract, as
// Dynamo calls it, over the same requests as quire.v1.
#pragma once

#include "server/generate/serving_context.h"
#include "server/rpc/service_methods.h"

namespace quire {

GrpcService VllmInferenceService(const ServingContext& context);
GrpcService VllmControlService(const ServingContext& context);

}  // namespace quire
