// The prompts of requests: what a chat template sees of them, and their tokens. Pure functions; any
// thread. Errors carry the field by the surface's name for it, except CANCELLED, which comes once
// the fuel's request is cancelled.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "server/base/fuel.h"
#include "server/request/generate/prompt_encoder.h"
#include "server/request/generation.h"
#include "server/request/generation_job.h"
#include "server/request/model_facts.h"

namespace quire {

// Refuses a chat with no messages, or with too many: these errors are known before the prompt is
// made.
absl::Status CheckMessages(const ChatPrompt& chat, const FieldNames& names);

// Errors: those of CheckMessages, and fields that contradict each other. The input keeps `fuel`.
absl::StatusOr<RenderInput> ConvertChat(const ChatPrompt& chat, const FieldNames& names,
                                        Fuel* fuel);

// The rendered chat, with the text that its answer begins with.
absl::StatusOr<PromptEncoder::Rendered> RenderChat(const ChatPrompt& chat, const FieldNames& names,
                                                   const PromptEncoder& encoder, Fuel* fuel);

absl::StatusOr<std::vector<TokenId>> EncodeText(const TextPrompt& prompt, const FieldNames& names,
                                                const PromptEncoder& encoder, Fuel* fuel);
absl::StatusOr<std::vector<TokenId>> EncodeRendered(const PromptEncoder::Rendered& rendered,
                                                    const FieldNames& names,
                                                    const PromptEncoder& encoder, Fuel* fuel);

// The tokens of a request's prompt, in whichever form it came. `job` is the rest of the request.
absl::StatusOr<std::vector<TokenId>> EncodePrompt(const Prompt& prompt, const GenerationJob& job,
                                                  const PromptEncoder& encoder,
                                                  const ModelFacts& model, Fuel* fuel);

}  // namespace quire
