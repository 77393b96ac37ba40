// Requests of OpenAI's responses. Features that this server does not have are refused by name;
// nothing is stored. Pure functions; any thread. Errors carry the field as the client named it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/request/generation.h"
#include "server/request/model_facts.h"
#include "server/surfaces/responses/responses_tools.h"
#include "server/text/answer/answer_parser.h"
#include "server/text/answer/model_answers.h"

namespace quire {

inline constexpr FieldNames kResponsesNames = {.prompt = "input",
                                               .messages = "input",
                                               .max_tokens = "max_output_tokens",
                                               .logprobs = "top_logprobs"};

// How the answer must look.
struct ResponsesFormat {
  bool streams = false;
  bool logprobs = false;
  std::string id;  // "resp_...", of the answer and its request
  // The parts to find in the answer's text, and whether it begins within reasoning, if the request
  // says so.
  AnswerOptions answer;
  std::optional<bool> in_reasoning;
  absl::flat_hash_map<std::string, NamespacedFunction> namespaced;
  // The values of the request that the answer repeats: members of an object.
  std::string members;
};

struct ResponsesRequest {
  ResponsesFormat format;
  Generation asked;
};

// `asked_id` is the request's id if the body has none; empty: one is made.
absl::StatusOr<ResponsesRequest> ParseResponses(std::string_view body, const ModelFacts& model,
                                                const ModelAnswers& answers,
                                                absl::string_view asked_id = "");

// The prompt that /v1/responses/input_tokens counts.
absl::StatusOr<Prompt> ParseInputTokens(std::string_view body);

}  // namespace quire
