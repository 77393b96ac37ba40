// Requests of OpenAI's completions and chats, with vLLM's further fields. Features that this server
// does not have are refused by name. Pure functions; any thread. Errors carry the field as the
// client named it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/request/generation.h"
#include "server/request/model_facts.h"
#include "server/surfaces/openai/chat_message.h"
#include "server/text/answer/model_answers.h"

namespace quire {

// How the answer must look.
struct OpenAiFormat {
  bool is_chat = false;
  bool streams = false;
  bool includes_usage = false;    // in a chunk of its own, of a stream
  bool continuous_usage = false;  // in every chunk
  bool echoes = false;            // the prompt before the answer
  bool logprobs = false;
  bool spells_token_ids = false;   // tokens of logprobs as "token_id:12"
  bool returns_token_ids = false;  // of the prompt, too
  bool prompt_logprobs = false;    // beside the answer, not as its beginning
  int n = 1;
  std::string model;  // as the client called it, or the first name
  std::string id;     // "cmpl-...", of the answer and its requests
  // The text of each prompt that is echoed; for a chat, the last message's text.
  std::vector<std::string> prompts;
  // For a chat: the parts to find in its text, and whether it begins within reasoning, if the
  // request says so.
  ChatMessage::Options message;
  std::optional<bool> in_reasoning;
  // The request names the function to call: then an answer ends as OpenAI's does, with "stop".
  bool names_function = false;
};

// The names for a chat. Its errors blame messages where a completion's blame the prompt.
inline constexpr FieldNames kChatNames = {.prompt = "messages", .logprobs = "top_logprobs"};

struct OpenAiRequest {
  OpenAiFormat format;
  Generation common;            // a chat's, or the common part of the completions of all prompts
  std::vector<Prompt> prompts;  // texts and lists of token ids; empty: a chat

  // The continuations of all prompts; an n that is not possible is refused later, by its name.
  int64_t num_continuations() const;
};

// One for each prompt, or one for a chat.
std::vector<Generation> GenerationsOf(OpenAiRequest request);

// `asked_id` is the request's id if the body has none; empty: one is made.
absl::StatusOr<OpenAiRequest> ParseCompletion(std::string_view body, const ModelFacts& model,
                                              absl::string_view asked_id = "");
absl::StatusOr<OpenAiRequest> ParseChat(std::string_view body, const ModelFacts& model,
                                        const ModelAnswers& answers,
                                        absl::string_view asked_id = "");

// The input of /tokenize: a text or a chat.
struct AskedTokens {
  Prompt prompt;
  bool spells = false;  // each of them
};
absl::StatusOr<AskedTokens> ParseTokenize(std::string_view body);

// The ids that /detokenize takes.
absl::StatusOr<std::vector<uint32_t>> ParseDetokenize(std::string_view body);

}  // namespace quire
