// Requests of Anthropic's messages. Features that this server does not have are refused by name;
// nothing is stored. Pure functions; any thread. Errors carry the field as the client named it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/request/generation.h"
#include "server/request/model_facts.h"
#include "server/text/answer/answer_parser.h"
#include "server/text/answer/model_answers.h"

namespace quire {

inline constexpr FieldNames kMessagesNames = {
    .prompt = "messages", .text = "messages", .stop_strings = "stop_sequences"};

// How the answer must look.
struct MessagesFormat {
  bool streams = false;
  std::string id;     // "msg_...", of the answer and its request
  std::string model;  // as the client called it, or the first name
  // The parts to find in the answer's text, and whether it begins within reasoning, if the request
  // says so.
  AnswerOptions answer;
  std::optional<bool> in_reasoning;
};

struct MessagesRequest {
  MessagesFormat format;
  Generation asked;
};

// `asked_id` is the request's id; empty: one is made.
absl::StatusOr<MessagesRequest> ParseMessages(std::string_view body, const ModelFacts& model,
                                              const ModelAnswers& answers,
                                              absl::string_view asked_id = "");

// The prompt that /v1/messages/count_tokens counts.
absl::StatusOr<Prompt> ParseCountTokens(std::string_view body);

}  // namespace quire
