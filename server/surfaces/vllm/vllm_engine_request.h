// vllm.grpc.engine's requests as Generation. Pure; any thread.
#pragma once

#include "absl/status/statusor.h"
#include "server/request/generation.h"
#include "vllm/grpc/engine/vllm_engine.pb.h"

namespace quire {

// UNIMPLEMENTED, or INVALID_ARGUMENT, in the terms of vllm.grpc.engine. Zero means the default
// there, and an unset temperature means 1. The router must apply the model's own defaults, which it
// finds in GetModelInfo.
absl::StatusOr<Generation> FromVllmEngine(::vllm::grpc::engine::GenerateRequest request);

}  // namespace quire
