// Turns texts and chats into tokens and back, for clients that only want to see them, over any
// transport. Pure functions; any thread. Errors carry their field.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/request/cancel_token.h"
#include "server/request/generate/prompt_encoder.h"
#include "server/request/generation.h"
#include "server/request/model_facts.h"

namespace quire {

struct TokenizedPrompt {
  std::vector<TokenId> ids;
  std::string rendered;  // the text that the chat template made of messages
};

// The tokens of a text or a chat. `token`, which may be null, ends the work with CANCELLED.
absl::StatusOr<TokenizedPrompt> TokenizePrompt(const Prompt& prompt, const FieldNames& names,
                                               const PromptEncoder& encoder,
                                               const CancelToken* token);

// How the vocabulary spells each id.
std::vector<std::string> SpellTokens(const PromptEncoder& encoder, const std::vector<TokenId>& ids);

// The text of a prompt of `ids`, special tokens included. `goes_on`: leaves out a character that
// the ids only begin, because the answer's text has it. An error blames `field`, or "echo".
absl::StatusOr<std::string> PromptText(const std::string& field, absl::Span<const uint32_t> ids,
                                       const PromptEncoder& encoder, const ModelFacts& model,
                                       bool goes_on);

// An error blames `field`, from which the ids came.
absl::StatusOr<std::string> Detokenize(const std::string& field, absl::Span<const uint32_t> ids,
                                       const PromptEncoder& encoder, const ModelFacts& model,
                                       bool skip_special_tokens);

}  // namespace quire
