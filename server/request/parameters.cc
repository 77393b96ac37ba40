#include "server/request/parameters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "engine/request_check.h"
#include "kernels/base/status_macros.h"
#include "kernels/sampling_row.h"
#include "server/request/field_error.h"
#include "server/request/limits.h"

namespace quire {

namespace {

// Before SetPrompt knows how much room the prompt leaves.
constexpr int64_t kUpToContextEnd = std::numeric_limits<int64_t>::max();

// A float with as many digits as tell it from its neighbours: 1.0000001 is not 1.
template <typename Value>
std::string Shown(Value value) {
  std::array<char, 32> digits;
  return {digits.data(), std::to_chars(digits.begin(), digits.end(), value).ptr};
}

template <typename Value>
absl::Status OutOfRange(const std::string& field, Value value, const std::string& allowed) {
  return InvalidField(field, absl::StrCat(Shown(value), " is out of range; allowed is ", allowed));
}

// NaN fails both comparisons and is refused.
template <typename Value>
absl::Status CheckRange(const std::string& field, Value value, Value min, Value max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return OutOfRange(field, value, absl::StrCat(Shown(min), " .. ", Shown(max)));
}

absl::Status CheckBytes(const std::string& field, const std::string& value, size_t max_bytes) {
  if (value.size() <= max_bytes) return absl::OkStatus();
  return InvalidField(
      field, absl::StrCat("is ", value.size(), " bytes long; allowed are at most ", max_bytes));
}

absl::Status CheckCount(const std::string& field, int64_t count, int64_t max_count) {
  if (count <= max_count) return absl::OkStatus();
  return InvalidField(field,
                      absl::StrCat("has ", count, " entries; allowed are at most ", max_count));
}

absl::Status CheckIdentity(const v1::GenerateRequest& message, const ModelFacts& model) {
  RETURN_IF_ERROR(CheckBytes("request_id", message.request_id(), kMaxRequestIdBytes));
  RETURN_IF_ERROR(CheckBytes("cache_salt", message.cache_salt(), kMaxCacheSaltBytes));
  const std::vector<std::string>& names = model.served_names;
  if (!message.model().empty() &&
      std::find(names.begin(), names.end(), message.model()) == names.end()) {
    return WithErrorCode(kModelNotFound,
                         InField("model", absl::NotFoundError(absl::StrCat(
                                              "\"", message.model().substr(0, 256),
                                              "\" is not served here; this server serves \"",
                                              absl::StrJoin(names, "\", \""), "\""))));
  }
  return absl::OkStatus();
}

absl::Status ConvertPenalties(const v1::Sampling& message, const GenerationConfig& defaults,
                              SamplingParams* params) {
  params->repetition_penalty = message.has_repetition_penalty()
                                   ? message.repetition_penalty()
                                   : defaults.repetition_penalty.value_or(1.0f);
  params->presence_penalty = message.presence_penalty();
  params->frequency_penalty = message.frequency_penalty();
  RETURN_IF_ERROR(
      CheckRange("sampling.repetition_penalty", params->repetition_penalty, 0.001f, 100.0f));
  RETURN_IF_ERROR(CheckRange("sampling.presence_penalty", params->presence_penalty, -2.0f, 2.0f));
  return CheckRange("sampling.frequency_penalty", params->frequency_penalty, -2.0f, 2.0f);
}

absl::Status ConvertLogitBias(const v1::Sampling& message, const ModelFacts& model,
                              SamplingParams* params) {
  RETURN_IF_ERROR(CheckCount("sampling.logit_bias", message.logit_bias().size(), kMaxLogitBias));
  for (const auto& [id, bias] : message.logit_bias()) {
    RETURN_IF_ERROR(CheckTokenId("sampling.logit_bias", id, model));
    RETURN_IF_ERROR(
        CheckRange(absl::StrCat("sampling.logit_bias[", id, "]"), bias, -100.0f, 100.0f));
    params->logit_bias.emplace_back(static_cast<TokenId>(id), bias);
  }
  // A map's order is arbitrary; a request's meaning is not.
  std::sort(params->logit_bias.begin(), params->logit_bias.end());
  return absl::OkStatus();
}

absl::Status ConvertSampling(const v1::Sampling& message, const ModelFacts& model,
                             uint64_t random_seed, SamplingParams* params) {
  const GenerationConfig& defaults = model.defaults;
  params->temperature =
      message.has_temperature() ? message.temperature() : defaults.temperature.value_or(1.0f);
  params->top_p = message.has_top_p() ? message.top_p() : defaults.top_p.value_or(1.0f);
  params->top_k = message.has_top_k() ? message.top_k() : defaults.top_k.value_or(0);
  params->min_p = message.has_min_p() ? message.min_p() : defaults.min_p.value_or(0.0f);
  params->seed = message.has_seed() ? message.seed() : random_seed;
  params->n = message.has_n() ? message.n() : 1;

  RETURN_IF_ERROR(CheckRange("sampling.temperature", params->temperature, 0.0f, 100.0f));
  if (!(params->top_p > 0.0f && params->top_p <= 1.0f)) {
    return OutOfRange("sampling.top_p", params->top_p, "more than 0, at most 1");
  }
  RETURN_IF_ERROR(CheckRange("sampling.top_k", params->top_k, -1, 1 << 30));  // -1 and 0: off
  params->top_k = std::max(params->top_k, 0);
  RETURN_IF_ERROR(CheckRange("sampling.min_p", params->min_p, 0.0f, 1.0f));
  RETURN_IF_ERROR(CheckRange("sampling.n", params->n, 1, kMaxContinuations));
  RETURN_IF_ERROR(ConvertPenalties(message, defaults, params));
  return ConvertLogitBias(message, model, params);
}

absl::Status ConvertStopTokens(const v1::Stop& message, const ModelFacts& model,
                               StopConditions* stop) {
  if (!message.ignore_eos()) stop->eos_token_ids = model.eos_token_ids;
  RETURN_IF_ERROR(CheckCount("stop.stop_token_ids", message.stop_token_ids_size(),
                             kMaxStopTokenIds - static_cast<int64_t>(stop->eos_token_ids.size())));
  for (uint32_t id : message.stop_token_ids()) {
    RETURN_IF_ERROR(CheckTokenId("stop.stop_token_ids", id, model));
    stop->stop_token_ids.push_back(static_cast<TokenId>(id));
  }
  return absl::OkStatus();
}

absl::Status ConvertStopStrings(const v1::Stop& message, const ModelFacts& model,
                                OutputOptions* output) {
  if (message.stop_strings_size() > 0 && !model.has_tokenizer) {
    return InField("stop.stop_strings",
                   absl::FailedPreconditionError("this server runs without a tokenizer "
                                                 "(--skip-tokenizer-init); send stop_token_ids"));
  }
  RETURN_IF_ERROR(CheckCount("stop.stop_strings", message.stop_strings_size(), kMaxStopStrings));
  for (const std::string& text : message.stop_strings()) {
    if (text.empty()) {
      return InvalidField("stop.stop_strings", "an empty string would stop at once");
    }
    RETURN_IF_ERROR(CheckBytes("stop.stop_strings", text, kMaxStopStringBytes));
    output->stop_strings.push_back(text);
  }
  output->include_stop_in_output = message.include_stop_in_output();
  return absl::OkStatus();
}

// The engine always draws a token; who wants none is not shown it.
absl::Status ConvertStop(const v1::GenerateRequest& request, const ModelFacts& model,
                         GenerationJob* job) {
  const v1::Stop& message = request.stop();
  const bool tells_of_prompt =
      request.output().has_prompt_logprobs() || request.output().return_prompt_token_ids();
  StopConditions& stop = job->request.stop;
  stop.max_tokens = message.has_max_tokens()
                        ? message.max_tokens()
                        : model.defaults.max_new_tokens.value_or(kUpToContextEnd);
  stop.min_tokens = message.min_tokens();
  if (stop.max_tokens < (tells_of_prompt ? 0 : 1)) {
    return OutOfRange("stop.max_tokens", stop.max_tokens,
                      "1 and more, or 0 where something of the prompt is asked for");
  }
  if (stop.min_tokens < 0 || stop.min_tokens > stop.max_tokens) {
    return OutOfRange("stop.min_tokens", stop.min_tokens, "0 .. max_tokens");
  }
  job->output.generates = stop.max_tokens > 0;
  stop.max_tokens = std::max<int64_t>(1, stop.max_tokens);
  RETURN_IF_ERROR(ConvertStopTokens(message, model, &stop));
  return ConvertStopStrings(message, model, &job->output);
}

absl::Status ConvertOutput(const v1::Output& message, const ModelFacts& model, GenerationJob* job) {
  SamplingParams& sampling = job->request.sampling;
  OutputOptions& output = job->output;
  output.logprobs = message.has_logprobs();
  output.prompt_logprobs = message.has_prompt_logprobs();
  if (output.logprobs) {
    RETURN_IF_ERROR(CheckRange("output.logprobs", message.logprobs(), 0, kMaxLogprobs));
    sampling.logprobs = message.logprobs();
  }
  if (output.prompt_logprobs) {
    RETURN_IF_ERROR(
        CheckRange("output.prompt_logprobs", message.prompt_logprobs(), 0, kMaxLogprobs));
    sampling.prompt_logprobs = message.prompt_logprobs();
  }
  // Without a tokenizer there is nothing else to return.
  output.return_token_ids = message.return_token_ids() || !model.has_tokenizer;
  output.return_prompt_token_ids = message.return_prompt_token_ids();
  output.skip_special_tokens =
      message.has_skip_special_tokens() ? message.skip_special_tokens() : true;
  RETURN_IF_ERROR(CheckCount("output.shown_special_tokens", message.shown_special_tokens_size(),
                             kMaxShownSpecialTokens));
  for (const uint32_t id : message.shown_special_tokens()) {
    RETURN_IF_ERROR(CheckTokenId("output.shown_special_tokens", id, model));
    output.shown_special_tokens.push_back(static_cast<TokenId>(id));
  }
  return absl::OkStatus();
}

// How many of the prompt's last tokens are kept; 0: all.
absl::StatusOr<int64_t> KeptTokens(const v1::GenerateRequest& message, const ModelFacts& model) {
  const int64_t wanted = message.truncate_prompt_tokens();
  if (!message.has_truncate_prompt_tokens() || wanted > 0) return wanted;
  if (wanted != -1) {
    return OutOfRange("truncate_prompt_tokens", wanted, "1 and more, or -1 for as many as fit");
  }
  const int64_t new_tokens = message.stop().has_max_tokens() ? message.stop().max_tokens() : 1;
  return std::max<int64_t>(1, model.max_model_len - std::max<int64_t>(1, new_tokens));
}

}  // namespace

absl::Status CheckTokenId(const std::string& field, uint32_t id, const ModelFacts& model) {
  if (id < static_cast<uint64_t>(model.vocab_size)) return absl::OkStatus();
  return InvalidField(field,
                      absl::StrCat("token id ", id, " is not in the vocabulary; ids are 0 .. ",
                                   model.vocab_size - 1));
}

absl::StatusOr<GenerationJob> ConvertParameters(const v1::GenerateRequest& message,
                                                const ModelFacts& model, uint64_t random_seed) {
  RETURN_IF_ERROR(CheckIdentity(message, model));
  GenerationJob job;
  job.client_id = message.request_id();
  job.request.priority = message.priority();
  job.request.cache_salt = message.cache_salt();
  RETURN_IF_ERROR(ConvertSampling(message.sampling(), model, random_seed, &job.request.sampling));
  RETURN_IF_ERROR(ConvertStop(message, model, &job));
  RETURN_IF_ERROR(ConvertOutput(message.output(), model, &job));
  job.output.prompt_has_added_tokens =
      message.has_text() &&
      (!message.text().has_add_special_tokens() || message.text().add_special_tokens());
  ASSIGN_OR_RETURN(job.truncate_prompt_tokens, KeptTokens(message, model));
  return job;
}

RequestFlow FlowOf(const Principal& principal) { return {FlowId(principal), principal.weight}; }

absl::Status ApplyPrincipal(const Principal& principal, GenerationJob* job) {
  if (const absl::Status status = CheckPriority(principal, job->request.priority); !status.ok()) {
    return InField("priority", status);
  }
  job->request.cache_salt = CacheSalt(principal, job->request.cache_salt);
  job->request.flow = FlowOf(principal);
  return absl::OkStatus();
}

absl::Status SetPrompt(std::vector<TokenId> prompt, const ModelFacts& model, GenerationJob* job) {
  if (prompt.empty()) return InvalidField("prompt", "has no tokens; send at least one");
  const auto most = static_cast<size_t>(job->truncate_prompt_tokens);
  if (most > 0 && prompt.size() > most) prompt.erase(prompt.begin(), prompt.end() - most);
  const int64_t room = model.max_model_len - static_cast<int64_t>(prompt.size());
  if (room < 1) {
    return WithErrorCode(
        kContextLengthExceeded,
        InvalidField("prompt", absl::StrCat("has ", prompt.size(), " tokens; at most ",
                                            model.max_model_len - 1,
                                            " fit: this model's maximum context length is ",
                                            model.max_model_len, " tokens, less one to generate")));
  }
  StopConditions& stop = job->request.stop;
  if (stop.min_tokens > room) {
    return OutOfRange("stop.min_tokens", stop.min_tokens,
                      absl::StrCat("0 .. ", room, ", what the prompt leaves of the context"));
  }
  stop.max_tokens = std::min(stop.max_tokens, room);
  job->request.prompt = std::move(prompt);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TokenId>> ConvertTokenIds(const v1::GenerateRequest& message,
                                                     const ModelFacts& model) {
  ASSIGN_OR_RETURN(const int64_t most, KeptTokens(message, model));
  absl::Span<const uint32_t> kept = message.token_ids().ids();
  if (most > 0) kept.remove_prefix(kept.size() - std::min<size_t>(kept.size(), most));
  // Longer prompts cannot fit whatever their ids are.
  if (kept.size() > static_cast<size_t>(model.max_model_len)) {
    return WithErrorCode(
        kContextLengthExceeded,
        InvalidField("token_ids", absl::StrCat("has ", kept.size(),
                                               " entries; this model's maximum context length is ",
                                               model.max_model_len, " tokens")));
  }
  std::vector<TokenId> ids;
  ids.reserve(kept.size());
  for (uint32_t id : kept) {
    RETURN_IF_ERROR(CheckTokenId("token_ids", id, model));
    ids.push_back(static_cast<TokenId>(id));
  }
  return ids;
}

}  // namespace quire
