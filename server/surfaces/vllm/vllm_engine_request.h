// vllm.grpc.engine's requests in terms of quire.v1, and errors the other way. Pure; any thread.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "quire/v1/inference.pb.h"
#include "vllm/grpc/engine/vllm_engine.pb.h"

namespace quire {

// UNIMPLEMENTED, or INVALID_ARGUMENT, in the terms of vllm.grpc.engine. Zero means the default
// there, and an unset temperature 1: the model's own defaults are the router's to apply, which
// finds them in GetModelInfo.
absl::StatusOr<v1::GenerateRequest> FromVllmEngine(::vllm::grpc::engine::GenerateRequest request);

// A status about a field of quire.v1.GenerateRequest, about the field that it came from.
absl::Status InVllmEngineTerms(absl::Status status);

}  // namespace quire
