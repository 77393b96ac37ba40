// Prompts of quire.v1 messages: what a chat template sees of them, and their tokens. Pure
// functions; any thread. INVALID_ARGUMENT carries the field.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "quire/v1/inference.pb.h"
#include "server/base/fuel.h"
#include "server/request/generate/prompt_encoder.h"
#include "server/request/model_facts.h"

namespace quire {

TextPrompt ConvertText(const v1::Text& message);

// None, or too many of them: what can be told before the prompt is made.
absl::Status CheckMessages(const v1::Messages& messages);

// Errors: CheckMessages, a role that is empty, JSON of the wrong kind. The input keeps `fuel`.
absl::StatusOr<RenderInput> ConvertMessages(const v1::Messages& messages, Fuel* fuel);

// The prompt of a chat: rendered, with what its answer is to begin with.
absl::StatusOr<PromptEncoder::Rendered> RenderMessages(const v1::Messages& messages,
                                                       const PromptEncoder& encoder, Fuel* fuel);

// The prompt of a request, in whichever form it came. CANCELLED once the fuel's request is.
absl::StatusOr<std::vector<TokenId>> EncodePrompt(const v1::GenerateRequest& request,
                                                  const PromptEncoder& encoder,
                                                  const ModelFacts& model, Fuel* fuel);

}  // namespace quire
