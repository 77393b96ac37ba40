// quire.v1's requests as Generation and Prompt. Pure functions; any thread. Errors carry the field
// as the message names it: a path ("sampling.temperature"), or the name of a oneof ("prompt").
#pragma once

#include "absl/status/statusor.h"
#include "quire/v1/inference.pb.h"
#include "server/request/generation.h"

namespace quire {

inline constexpr FieldNames kQuireNames = {
    .text = "text",
    .token_ids = "token_ids",
    .tools = "messages.tools_json",
    .template_kwargs = "messages.template_kwargs_json",
    .continue_final_message = "messages.continue_final_message",
    .answer_start = "messages.answer_start",
    .temperature = "sampling.temperature",
    .top_p = "sampling.top_p",
    .top_k = "sampling.top_k",
    .min_p = "sampling.min_p",
    .repetition_penalty = "sampling.repetition_penalty",
    .presence_penalty = "sampling.presence_penalty",
    .frequency_penalty = "sampling.frequency_penalty",
    .n = "sampling.n",
    .logit_bias = "sampling.logit_bias",
    .max_tokens = "stop.max_tokens",
    .min_tokens = "stop.min_tokens",
    .stop_strings = "stop.stop_strings",
    .stop_token_ids = "stop.stop_token_ids",
    .constraint = "constraint",
    .logprobs = "output.logprobs",
    .prompt_logprobs = "output.prompt_logprobs",
    .shown_special_tokens = "output.shown_special_tokens",
};

// Errors: those of a chat's messages and of JSON in texts.
absl::StatusOr<Generation> ToGeneration(v1::GenerateRequest message);

absl::StatusOr<Prompt> ToPrompt(v1::TokenizeRequest message);

}  // namespace quire
