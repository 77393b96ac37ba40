#include "engine/request_check.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"

namespace quire {

namespace {

absl::Status CheckToken(TokenId token, int64_t vocab_size, const char* what) {
  if (token >= 0 && token < vocab_size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " has token id ", token, "; this model's ids go from 0 to ", vocab_size - 1));
}

absl::Status CheckRange(double value, double low, double high, const char* what) {
  if (value >= low && value <= high) return absl::OkStatus();  // false for NaN
  return absl::InvalidArgumentError(
      absl::StrCat(what, " is ", value, "; it must be from ", low, " to ", high));
}

absl::Status CheckSampling(const SamplingParams& sampling, int64_t vocab_size) {
  RETURN_IF_ERROR(CheckRange(sampling.temperature, 0, 100, "temperature"));
  if (!(sampling.top_p > 0 && sampling.top_p <= 1)) {  // false for NaN
    return absl::InvalidArgumentError(
        absl::StrCat("top_p is ", sampling.top_p, "; it must be more than 0 and at most 1"));
  }
  RETURN_IF_ERROR(CheckRange(sampling.top_k, 0, 1 << 30, "top_k"));
  RETURN_IF_ERROR(CheckRange(sampling.min_p, 0, 1, "min_p"));
  RETURN_IF_ERROR(CheckRange(sampling.repetition_penalty, 1e-3, 100, "repetition_penalty"));
  RETURN_IF_ERROR(CheckRange(sampling.presence_penalty, -100, 100, "presence_penalty"));
  RETURN_IF_ERROR(CheckRange(sampling.frequency_penalty, -100, 100, "frequency_penalty"));
  RETURN_IF_ERROR(CheckRange(sampling.n, 1, kMaxContinuations, "n"));
  RETURN_IF_ERROR(CheckRange(sampling.logprobs, -1, kMaxLogprobs, "logprobs"));
  RETURN_IF_ERROR(CheckRange(sampling.prompt_logprobs, -1, kMaxLogprobs, "prompt_logprobs"));
  if (static_cast<int64_t>(sampling.logit_bias.size()) > kMaxLogitBias) {
    return absl::InvalidArgumentError(absl::StrCat("logit_bias has ", sampling.logit_bias.size(),
                                                   " entries; at most ", kMaxLogitBias));
  }
  for (const auto& [token, bias] : sampling.logit_bias) {
    RETURN_IF_ERROR(CheckToken(token, vocab_size, "logit_bias"));
    if (std::isnan(bias)) return absl::InvalidArgumentError("logit_bias has a value that is NaN");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRequest(const Request& request, const ModelInfo& model) {
  const int64_t vocab_size = model.config.vocab_size;
  const auto num_prompt = static_cast<int64_t>(request.prompt.size());
  if (num_prompt == 0) {
    return absl::InvalidArgumentError("the prompt is empty; give at least one token");
  }
  if (num_prompt >= model.max_model_len) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the prompt has ", num_prompt, " tokens; with at least one generated token the context of ",
        model.max_model_len, " tokens allows ", model.max_model_len - 1,
        ": shorten the prompt or serve with a larger --max-model-len"));
  }
  for (const TokenId token : request.prompt) {
    RETURN_IF_ERROR(CheckToken(token, vocab_size, "the prompt"));
  }
  RETURN_IF_ERROR(CheckSampling(request.sampling, vocab_size));
  RETURN_IF_ERROR(CheckRange(request.flow.weight, 1, kMaxFlowWeight, "the weight"));
  const StopConditions& stop = request.stop;
  if (stop.max_tokens < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_tokens is ", stop.max_tokens, "; it must be at least 1"));
  }
  if (stop.min_tokens < 0 || stop.min_tokens > stop.max_tokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "min_tokens is ", stop.min_tokens, "; it must be from 0 to max_tokens, ", stop.max_tokens));
  }
  const size_t num_stops = stop.eos_token_ids.size() + stop.stop_token_ids.size();
  if (static_cast<int64_t>(num_stops) > kMaxStopTokenIds) {
    return absl::InvalidArgumentError(absl::StrCat(
        "there are ", num_stops, " stop and end token ids; at most ", kMaxStopTokenIds));
  }
  for (const TokenId token : stop.stop_token_ids) {
    RETURN_IF_ERROR(CheckToken(token, vocab_size, "stop_token_ids"));
  }
  for (const TokenId token : stop.eos_token_ids) {
    RETURN_IF_ERROR(CheckToken(token, vocab_size, "eos_token_ids"));
  }
  return absl::OkStatus();
}

}  // namespace quire
