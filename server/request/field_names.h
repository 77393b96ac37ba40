// FieldNames: a surface's names for the fields of Generation, so that an error names the field that
// its client sent. The defaults are OpenAI's names, with vLLM's for fields that OpenAI does not
// have. Constants.
#pragma once

namespace quire {

struct FieldNames {
  const char* request_id = "request_id";
  const char* model = "model";
  // The prompt: in general, and in each of its forms.
  const char* prompt = "prompt";
  const char* text = "prompt";
  const char* token_ids = "prompt";
  const char* messages = "messages";
  const char* tools = "tools";
  const char* template_kwargs = "chat_template_kwargs";
  const char* continue_final_message = "continue_final_message";
  const char* answer_start = "tool_choice";

  const char* temperature = "temperature";
  const char* top_p = "top_p";
  const char* top_k = "top_k";
  const char* min_p = "min_p";
  const char* repetition_penalty = "repetition_penalty";
  const char* presence_penalty = "presence_penalty";
  const char* frequency_penalty = "frequency_penalty";
  const char* n = "n";
  const char* logit_bias = "logit_bias";

  const char* max_tokens = "max_tokens";
  const char* min_tokens = "min_tokens";
  const char* stop_strings = "stop";
  const char* stop_token_ids = "stop_token_ids";
  const char* constraint = "response_format";

  const char* logprobs = "logprobs";
  const char* prompt_logprobs = "prompt_logprobs";
  const char* shown_special_tokens = "shown_special_tokens";

  const char* priority = "priority";
  const char* cache_salt = "cache_salt";
  const char* truncate_prompt_tokens = "truncate_prompt_tokens";
};

inline constexpr FieldNames kOpenAiNames;

}  // namespace quire
