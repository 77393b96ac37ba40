// Requests of OpenAI's completions and chats, with vLLM's further fields, in terms of
// quire.v1.GenerateRequest. What this server has not is refused by name. Pure functions; any
// thread. Errors carry the field as the client named it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "quire/v1/inference.pb.h"
#include "server/request/model_facts.h"
#include "server/surfaces/openai/chat_message.h"
#include "server/text/answer/model_answers.h"

namespace quire {

// How the answer is to look.
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
  // Of each prompt that is echoed: its text; of a chat the last message's.
  std::vector<std::string> prompts;
  // Of a chat: what to take its text apart for, and whether it begins within reasoning, if the
  // request says so.
  ChatMessage::Options message;
  std::optional<bool> in_reasoning;
  // The request names the function to call: then an answer ends as OpenAI's does, with "stop".
  bool names_function = false;
};

// A prompt of a completion: a text, or token ids.
using CompletionPrompt = std::variant<std::string, std::vector<uint32_t>>;

struct OpenAiRequest {
  OpenAiFormat format;
  v1::GenerateRequest common;  // a chat's, or what the completions of all prompts have in common
  std::vector<CompletionPrompt> prompts;  // empty: a chat
  bool add_special_tokens = true;         // to prompts that are texts

  // Of all prompts; an n that cannot be is refused later, by its name.
  int64_t num_continuations() const;
};

// The requests of quire.v1: one for each prompt, or a chat's.
std::vector<v1::GenerateRequest> RequestsOf(OpenAiRequest request);

// `asked_id` is the request's id where the body has none; empty: one is made.
absl::StatusOr<OpenAiRequest> ParseCompletion(std::string_view body, const ModelFacts& model,
                                              absl::string_view asked_id = "");
absl::StatusOr<OpenAiRequest> ParseChat(std::string_view body, const ModelFacts& model,
                                        const ModelAnswers& answers,
                                        absl::string_view asked_id = "");

// What /tokenize and /detokenize take: quire.v1's, from a prompt or from messages.
absl::StatusOr<v1::TokenizeRequest> ParseTokenize(std::string_view body);
absl::StatusOr<v1::DetokenizeRequest> ParseDetokenize(std::string_view body);

// `status` with the field that it blames as OpenAI's clients know it.
absl::Status InOpenAiTerms(absl::Status status, bool is_chat);

}  // namespace quire
