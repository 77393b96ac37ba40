// From Generation to GenerationJob: every parameter checked and given its value. Pure functions;
// any thread. Errors carry their field by the surface's name for it (field_names.h); the sentence
// has the value and what is allowed.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/auth/principal.h"
#include "server/request/generation.h"
#include "server/request/generation_job.h"
#include "server/request/model_facts.h"

namespace quire {

// Everything except the prompt: the request's value, else the model's default, else vLLM's.
// `random_seed` is used when the request has no seed. NOT_FOUND for another model's name.
absl::StatusOr<GenerationJob> ConvertParameters(const Generation& asked, const ModelFacts& model,
                                                uint64_t random_seed);

// The flow whose share of the server a request of `principal` takes.
RequestFlow FlowOf(const Principal& principal);

// Checks that `principal` may have what the request asks for, and makes its prefix cache entries
// and its share of the server the principal's own.
absl::Status ApplyPrincipal(const Principal& principal, GenerationJob* job);

// Adds the prompt, which must leave room for at least one token, and bounds max_tokens by the
// context's end.
absl::Status SetPrompt(std::vector<TokenId> prompt, const ModelFacts& model, GenerationJob* job);

// `ids`, each of which must be in the vocabulary; an error blames `field`.
absl::StatusOr<std::vector<TokenId>> ConvertTokenIds(const std::string& field,
                                                     absl::Span<const uint32_t> ids,
                                                     const ModelFacts& model);

// The prompt of such ids. If it is to be truncated, only the ids that are kept are checked.
absl::StatusOr<std::vector<TokenId>> ConvertPromptIds(absl::Span<const uint32_t> ids,
                                                      const ModelFacts& model,
                                                      const GenerationJob& job);

}  // namespace quire
