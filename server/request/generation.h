// Generation: a request to generate, as every surface makes it of its own messages: the client's
// values, not checked yet. Plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/grammar/constraint/constraint_spec.h"
#include "server/request/field_names.h"
#include "server/text/json_tree.h"

namespace quire {

// Completed as it stands.
struct TextPrompt {
  std::string text;
  bool add_special_tokens = true;    // those that begin and end a sequence
  bool parse_special_tokens = true;  // if the text spells one
};

using TokenIdsPrompt = std::vector<uint32_t>;

// The text that an answer begins with, as the prompt's end: it counts as prompt and does not come
// back. Special tokens that are spelled in it count as such.
struct AnswerStart {
  std::string text;
  // If the prompt ends with reasoning_open, white space apart, reasoning_close comes before the
  // text.
  std::string reasoning_open;
  std::string reasoning_close;
};

// Rendered with the model's chat template.
struct ChatPrompt {
  std::vector<JsonTree> messages = {};  // objects with a role, which is a text
  JsonTree tools = {};                  // a list, or null
  JsonTree template_kwargs = {};        // an object of further variables, or null
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // then add_generation_prompt must be false
  std::optional<AnswerStart> answer_start = {};
};

// None: it is missing.
using Prompt = std::variant<std::monostate, TextPrompt, TokenIdsPrompt, ChatPrompt>;

// About how long it was in the request.
size_t NumBytes(const ChatPrompt& chat);
size_t NumBytes(const Prompt& prompt);
// The messages of a chat; 0 for other prompts.
size_t NumMessages(const Prompt& prompt);

// A field without a value has the model's default, else vLLM's.
struct Generation {
  const FieldNames* names = &kOpenAiNames;  // what the surface calls the fields

  std::string request_id;  // empty: the server chooses one
  std::string model;       // empty: the one that is served
  Prompt prompt;

  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int32_t> top_k;  // 0 and -1: off
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
  float presence_penalty = 0;
  float frequency_penalty = 0;
  std::optional<uint64_t> seed;
  int32_t n = 1;
  std::map<uint32_t, float> logit_bias;  // by token id

  std::optional<int64_t> max_tokens;
  int64_t min_tokens = 0;
  std::vector<std::string> stop_strings;
  std::vector<uint32_t> stop_token_ids;
  bool ignore_eos = false;
  bool include_stop_in_output = false;
  std::optional<ConstraintSpec> constraint;  // what the answer must be
  // The answer may begin with reasoning, which the constraint leaves free: the surface or its
  // client tells reasoning apart.
  bool has_reasoning = false;

  std::optional<int32_t> logprobs;         // how many likely tokens beside each; none: no logprobs
  std::optional<int32_t> prompt_logprobs;  // likewise
  bool return_token_ids = false;
  bool return_prompt_token_ids = false;
  bool skip_special_tokens = true;
  std::vector<uint32_t> shown_special_tokens;  // even if special tokens are skipped

  int32_t priority = 0;  // lower runs first
  std::string cache_salt;
  // How many of a long prompt's tokens are kept; -1: as many as leave room for max_tokens.
  std::optional<int64_t> truncate_prompt_tokens;
  bool keeps_first_tokens = false;  // else the last ones
};

}  // namespace quire
