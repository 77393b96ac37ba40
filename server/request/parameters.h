// From quire.v1.GenerateRequest to GenerationJob: every parameter checked and given its value. Pure
// functions; any thread. Errors carry their field
// (field_error.h); the sentence has the value and what is allowed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "quire/v1/inference.pb.h"
#include "server/auth/principal.h"
#include "server/request/generation_job.h"
#include "server/request/model_facts.h"

namespace quire {

// Everything but the prompt: the request's value, else the model's default, else vLLM's.
// `random_seed` is used when the request has no seed. NOT_FOUND for another model's name.
absl::StatusOr<GenerationJob> ConvertParameters(const v1::GenerateRequest& message,
                                                const ModelFacts& model, uint64_t random_seed);

// Whose share of the server a request of `principal` takes.
RequestFlow FlowOf(const Principal& principal);

// Checks what the request asks for against what `principal` may, and makes its prefix cache entries
// and its share of the server the principal's own.
absl::Status ApplyPrincipal(const Principal& principal, GenerationJob* job);

// Adds the prompt, which must leave room for at least one token, and bounds max_tokens by the
// context's end.
absl::Status SetPrompt(std::vector<TokenId> prompt, const ModelFacts& model, GenerationJob* job);

// `field` is where the id came from.
absl::Status CheckTokenId(const std::string& field, uint32_t id, const ModelFacts& model);

// The ids of a token_ids prompt, each of which must be in the vocabulary; of one that is to be
// truncated only those that are kept.
absl::StatusOr<std::vector<TokenId>> ConvertTokenIds(const v1::GenerateRequest& message,
                                                     const ModelFacts& model);

}  // namespace quire
