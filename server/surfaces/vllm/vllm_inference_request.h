// vllm.Inference's requests in terms of quire.v1, and errors the other way. Pure but for random
// salts; any thread.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "quire/v1/inference.pb.h"
#include "server/request/model_facts.h"
#include "vllm/inference.pb.h"

namespace quire {

// UNIMPLEMENTED, or INVALID_ARGUMENT, in the terms of vllm.Inference. Zero means the model's
// default there, but of max_new_tokens 20.
absl::StatusOr<v1::GenerateRequest> FromVllmInference(::vllm::GenerateRequest request,
                                                      const ModelFacts& model);

// A status about a field of quire.v1.GenerateRequest, about the field that it came from.
absl::Status InVllmInferenceTerms(absl::Status status);

}  // namespace quire
