// Prompts of quire.v1 messages: what a chat template sees of them, and their tokens. Pure
// functions; any thread. INVALID_ARGUMENT carries the field.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "quire/v1/inference.pb.h"
#include "server/generate/prompt_encoder.h"
#include "server/request/model_facts.h"

namespace quire {

TextPrompt ConvertText(const v1::Text& message);

// Errors: no messages, too many, a role that is empty, JSON of the wrong kind.
absl::StatusOr<RenderInput> ConvertMessages(const v1::Messages& messages);

// The prompt of a request, in whichever form it came.
absl::StatusOr<std::vector<TokenId>> EncodePrompt(const v1::GenerateRequest& request,
                                                  const PromptEncoder& encoder,
                                                  const ModelFacts& model);

}  // namespace quire
