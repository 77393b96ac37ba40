// Texts and chats to tokens and back for clients that only want to see them, whatever their
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
  std::string rendered;  // what the chat template made of messages
};

// Of a text or a chat. `token`, which may be null, ends the work with CANCELLED.
absl::StatusOr<TokenizedPrompt> TokenizePrompt(const Prompt& prompt, const FieldNames& names,
                                               const PromptEncoder& encoder,
                                               const CancelToken* token);

// How the vocabulary spells each id.
std::vector<std::string> SpellTokens(const PromptEncoder& encoder, const std::vector<TokenId>& ids);

// The text of a prompt of `ids`, special tokens included. `goes_on`: without a character that they
// only begin, which the answer's text has. An error blames `field`, or "echo".
absl::StatusOr<std::string> PromptText(const std::string& field, absl::Span<const uint32_t> ids,
                                       const PromptEncoder& encoder, const ModelFacts& model,
                                       bool goes_on);

// An error blames `field`, where the ids came from.
absl::StatusOr<std::string> Detokenize(const std::string& field, absl::Span<const uint32_t> ids,
                                       const PromptEncoder& encoder, const ModelFacts& model,
                                       bool skip_special_tokens);

}  // namespace quire
