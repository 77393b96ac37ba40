// vllm.Inference's requests as Generation. Pure, except for random salts; any thread.
#pragma once

#include "absl/status/statusor.h"
#include "server/request/generation.h"
#include "server/request/model_facts.h"
#include "vllm/inference.pb.h"

namespace quire {

// UNIMPLEMENTED, or INVALID_ARGUMENT, in the terms of vllm.Inference. Zero means the model's
// default there, except for max_new_tokens, where it means 20.
absl::StatusOr<Generation> FromVllmInference(::vllm::GenerateRequest request,
                                             const ModelFacts& model);

}  // namespace quire
