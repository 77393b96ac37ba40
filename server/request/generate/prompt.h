// The prompts of requests: what a chat template sees of them, and their tokens. Pure functions; any
// thread. Errors carry the field by the surface's name for it, but for CANCELLED once the fuel's
// request is.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "server/base/fuel.h"
#include "server/request/generate/prompt_encoder.h"
#include "server/request/generation.h"
#include "server/request/generation_job.h"
#include "server/request/model_facts.h"

namespace quire {

// No messages, or too many of them: what can be told before the prompt is made.
absl::Status CheckMessages(const ChatPrompt& chat, const FieldNames& names);

// Errors: CheckMessages, what contradicts itself. The input keeps `fuel`.
absl::StatusOr<RenderInput> ConvertChat(const ChatPrompt& chat, const FieldNames& names,
                                        Fuel* fuel);

// Rendered, with what its answer is to begin with.
absl::StatusOr<PromptEncoder::Rendered> RenderChat(const ChatPrompt& chat, const FieldNames& names,
                                                   const PromptEncoder& encoder, Fuel* fuel);

absl::StatusOr<std::vector<TokenId>> EncodeText(const TextPrompt& prompt, const FieldNames& names,
                                                const PromptEncoder& encoder, Fuel* fuel);
absl::StatusOr<std::vector<TokenId>> EncodeRendered(const PromptEncoder::Rendered& rendered,
                                                    const FieldNames& names,
                                                    const PromptEncoder& encoder, Fuel* fuel);

// The prompt of a request, in whichever form it came. `job` is the rest of the request.
absl::StatusOr<std::vector<TokenId>> EncodePrompt(const Prompt& prompt, const GenerationJob& job,
                                                  const PromptEncoder& encoder,
                                                  const ModelFacts& model, Fuel* fuel);

}  // namespace quire
