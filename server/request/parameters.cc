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

absl::Status CheckCount(const std::string& field, size_t count, size_t max_count) {
  if (count <= max_count) return absl::OkStatus();
  return InvalidField(field,
                      absl::StrCat("has ", count, " entries; allowed are at most ", max_count));
}

absl::Status CheckTokenId(const std::string& field, uint32_t id, const ModelFacts& model) {
  if (id < static_cast<uint64_t>(model.vocab_size)) return absl::OkStatus();
  return InvalidField(field,
                      absl::StrCat("token id ", id, " is not in the vocabulary; ids are 0 .. ",
                                   model.vocab_size - 1));
}

absl::Status CheckIdentity(const Generation& asked, const ModelFacts& model) {
  const FieldNames& names = *asked.names;
  RETURN_IF_ERROR(CheckBytes(names.request_id, asked.request_id, kMaxRequestIdBytes));
  RETURN_IF_ERROR(CheckBytes(names.cache_salt, asked.cache_salt, kMaxCacheSaltBytes));
  const std::vector<std::string>& served = model.served_names;
  if (asked.model.empty() || std::find(served.begin(), served.end(), asked.model) != served.end()) {
    return absl::OkStatus();
  }
  return WithErrorCode(kModelNotFound,
                       InField(names.model, absl::NotFoundError(absl::StrCat(
                                                "\"", asked.model.substr(0, 256),
                                                "\" is not served here; this server serves \"",
                                                absl::StrJoin(served, "\", \""), "\""))));
}

absl::Status ConvertPenalties(const Generation& asked, const GenerationConfig& defaults,
                              SamplingParams* params) {
  const FieldNames& names = *asked.names;
  params->repetition_penalty =
      asked.repetition_penalty.value_or(defaults.repetition_penalty.value_or(1.0f));
  params->presence_penalty = asked.presence_penalty;
  params->frequency_penalty = asked.frequency_penalty;
  RETURN_IF_ERROR(CheckRange(names.repetition_penalty, params->repetition_penalty, 0.001f, 100.0f));
  RETURN_IF_ERROR(CheckRange(names.presence_penalty, params->presence_penalty, -2.0f, 2.0f));
  return CheckRange(names.frequency_penalty, params->frequency_penalty, -2.0f, 2.0f);
}

absl::Status ConvertLogitBias(const Generation& asked, const ModelFacts& model,
                              SamplingParams* params) {
  const std::string field = asked.names->logit_bias;
  RETURN_IF_ERROR(CheckCount(field, asked.logit_bias.size(), kMaxLogitBias));
  for (const auto& [id, bias] : asked.logit_bias) {
    RETURN_IF_ERROR(CheckTokenId(field, id, model));
    RETURN_IF_ERROR(CheckRange(absl::StrCat(field, "[", id, "]"), bias, -100.0f, 100.0f));
    params->logit_bias.emplace_back(static_cast<TokenId>(id), bias);
  }
  return absl::OkStatus();
}

absl::Status ConvertSampling(const Generation& asked, const ModelFacts& model, uint64_t random_seed,
                             SamplingParams* params) {
  const FieldNames& names = *asked.names;
  const GenerationConfig& defaults = model.defaults;
  params->temperature = asked.temperature.value_or(defaults.temperature.value_or(1.0f));
  params->top_p = asked.top_p.value_or(defaults.top_p.value_or(1.0f));
  params->top_k = asked.top_k.value_or(defaults.top_k.value_or(0));
  params->min_p = asked.min_p.value_or(defaults.min_p.value_or(0.0f));
  params->seed = asked.seed.value_or(random_seed);
  params->n = asked.n;

  RETURN_IF_ERROR(CheckRange(names.temperature, params->temperature, 0.0f, 100.0f));
  if (!(params->top_p > 0.0f && params->top_p <= 1.0f)) {
    return OutOfRange(names.top_p, params->top_p, "more than 0, at most 1");
  }
  RETURN_IF_ERROR(CheckRange(names.top_k, params->top_k, -1, 1 << 30));  // -1 and 0: off
  params->top_k = std::max(params->top_k, 0);
  RETURN_IF_ERROR(CheckRange(names.min_p, params->min_p, 0.0f, 1.0f));
  RETURN_IF_ERROR(CheckRange(names.n, params->n, 1, kMaxContinuations));
  RETURN_IF_ERROR(ConvertPenalties(asked, defaults, params));
  return ConvertLogitBias(asked, model, params);
}

absl::Status ConvertStopTokens(const Generation& asked, const ModelFacts& model,
                               StopConditions* stop) {
  const std::string field = asked.names->stop_token_ids;
  if (!asked.ignore_eos) stop->eos_token_ids = model.eos_token_ids;
  RETURN_IF_ERROR(CheckCount(
      field, asked.stop_token_ids.size(),
      kMaxStopTokenIds - std::min<size_t>(kMaxStopTokenIds, stop->eos_token_ids.size())));
  ASSIGN_OR_RETURN(stop->stop_token_ids, ConvertTokenIds(field, asked.stop_token_ids, model));
  return absl::OkStatus();
}

absl::Status ConvertStopStrings(const Generation& asked, const ModelFacts& model,
                                OutputOptions* output) {
  const std::string field = asked.names->stop_strings;
  if (!asked.stop_strings.empty() && !model.has_tokenizer) {
    return InField(field,
                   absl::FailedPreconditionError("this server runs without a tokenizer "
                                                 "(--skip-tokenizer-init); send stop_token_ids"));
  }
  RETURN_IF_ERROR(CheckCount(field, asked.stop_strings.size(), kMaxStopStrings));
  for (const std::string& text : asked.stop_strings) {
    if (text.empty()) return InvalidField(field, "an empty string would stop at once");
    RETURN_IF_ERROR(CheckBytes(field, text, kMaxStopStringBytes));
    output->stop_strings.push_back(text);
  }
  output->include_stop_in_output = asked.include_stop_in_output;
  return absl::OkStatus();
}

// The engine always draws a token; who wants none is not shown it.
absl::Status ConvertStop(const Generation& asked, const ModelFacts& model, GenerationJob* job) {
  const FieldNames& names = *asked.names;
  const bool tells_of_prompt = asked.prompt_logprobs.has_value() || asked.return_prompt_token_ids;
  StopConditions& stop = job->request.stop;
  stop.max_tokens =
      asked.max_tokens.value_or(model.defaults.max_new_tokens.value_or(kUpToContextEnd));
  stop.min_tokens = asked.min_tokens;
  if (stop.max_tokens < (tells_of_prompt ? 0 : 1)) {
    return OutOfRange(names.max_tokens, stop.max_tokens,
                      "1 and more, or 0 where something of the prompt is asked for");
  }
  if (stop.min_tokens < 0 || stop.min_tokens > stop.max_tokens) {
    return OutOfRange(names.min_tokens, stop.min_tokens, "0 .. max_tokens");
  }
  job->output.generates = stop.max_tokens > 0;
  stop.max_tokens = std::max<int64_t>(1, stop.max_tokens);
  RETURN_IF_ERROR(ConvertStopTokens(asked, model, &stop));
  return ConvertStopStrings(asked, model, &job->output);
}

absl::Status ConvertOutput(const Generation& asked, const ModelFacts& model, GenerationJob* job) {
  const FieldNames& names = *asked.names;
  SamplingParams& sampling = job->request.sampling;
  OutputOptions& output = job->output;
  output.logprobs = asked.logprobs.has_value();
  output.prompt_logprobs = asked.prompt_logprobs.has_value();
  if (output.logprobs) {
    RETURN_IF_ERROR(CheckRange(names.logprobs, *asked.logprobs, 0, kMaxLogprobs));
    sampling.logprobs = *asked.logprobs;
  }
  if (output.prompt_logprobs) {
    RETURN_IF_ERROR(CheckRange(names.prompt_logprobs, *asked.prompt_logprobs, 0, kMaxLogprobs));
    sampling.prompt_logprobs = *asked.prompt_logprobs;
  }
  // Without a tokenizer there is nothing else to return.
  output.return_token_ids = asked.return_token_ids || !model.has_tokenizer;
  output.return_prompt_token_ids = asked.return_prompt_token_ids;
  output.skip_special_tokens = asked.skip_special_tokens;
  RETURN_IF_ERROR(CheckCount(names.shown_special_tokens, asked.shown_special_tokens.size(),
                             kMaxShownSpecialTokens));
  ASSIGN_OR_RETURN(output.shown_special_tokens,
                   ConvertTokenIds(names.shown_special_tokens, asked.shown_special_tokens, model));
  const auto* text = std::get_if<TextPrompt>(&asked.prompt);
  output.prompt_has_added_tokens = text != nullptr && text->add_special_tokens;
  return absl::OkStatus();
}

// What is kept of a prompt.
template <typename Id>
absl::Span<const Id> Truncated(absl::Span<const Id> prompt, const GenerationJob& job) {
  const auto most = static_cast<size_t>(job.truncate_prompt_tokens);
  if (most == 0 || most >= prompt.size()) return prompt;
  return job.keeps_first_tokens ? prompt.first(most) : prompt.last(most);
}

// How many of the prompt's tokens are kept; 0: all.
absl::StatusOr<int64_t> KeptTokens(const Generation& asked, const ModelFacts& model) {
  const int64_t wanted = asked.truncate_prompt_tokens.value_or(0);
  if (!asked.truncate_prompt_tokens.has_value() || wanted > 0) return wanted;
  if (wanted != -1) {
    return OutOfRange(asked.names->truncate_prompt_tokens, wanted,
                      "1 and more, or -1 for as many as fit");
  }
  const int64_t new_tokens = asked.max_tokens.value_or(1);
  return std::max<int64_t>(1, model.max_model_len - std::max<int64_t>(1, new_tokens));
}

}  // namespace

absl::StatusOr<std::vector<TokenId>> ConvertTokenIds(const std::string& field,
                                                     absl::Span<const uint32_t> ids,
                                                     const ModelFacts& model) {
  std::vector<TokenId> tokens;
  tokens.reserve(ids.size());
  for (const uint32_t id : ids) {
    RETURN_IF_ERROR(CheckTokenId(field, id, model));
    tokens.push_back(static_cast<TokenId>(id));
  }
  return tokens;
}

absl::StatusOr<GenerationJob> ConvertParameters(const Generation& asked, const ModelFacts& model,
                                                uint64_t random_seed) {
  RETURN_IF_ERROR(CheckIdentity(asked, model));
  GenerationJob job;
  job.names = asked.names;
  job.client_id = asked.request_id;
  job.request.priority = asked.priority;
  job.request.cache_salt = asked.cache_salt;
  RETURN_IF_ERROR(ConvertSampling(asked, model, random_seed, &job.request.sampling));
  RETURN_IF_ERROR(ConvertStop(asked, model, &job));
  RETURN_IF_ERROR(ConvertOutput(asked, model, &job));
  ASSIGN_OR_RETURN(job.truncate_prompt_tokens, KeptTokens(asked, model));
  job.keeps_first_tokens = asked.keeps_first_tokens;
  return job;
}

RequestFlow FlowOf(const Principal& principal) { return {FlowId(principal), principal.weight}; }

absl::Status ApplyPrincipal(const Principal& principal, GenerationJob* job) {
  if (const absl::Status status = CheckPriority(principal, job->request.priority); !status.ok()) {
    return InField(job->names->priority, status);
  }
  job->request.cache_salt = CacheSalt(principal, job->request.cache_salt);
  job->request.flow = FlowOf(principal);
  return absl::OkStatus();
}

absl::Status SetPrompt(std::vector<TokenId> prompt, const ModelFacts& model, GenerationJob* job) {
  const FieldNames& names = *job->names;
  if (prompt.empty()) return InvalidField(names.prompt, "has no tokens; send at least one");
  const absl::Span<const TokenId> kept = Truncated<TokenId>(prompt, *job);
  if (kept.size() < prompt.size()) prompt.assign(kept.begin(), kept.end());
  const int64_t room = model.max_model_len - static_cast<int64_t>(prompt.size());
  if (room < 1) {
    return WithErrorCode(
        kContextLengthExceeded,
        InvalidField(
            names.prompt,
            absl::StrCat("has ", prompt.size(), " tokens; at most ", model.max_model_len - 1,
                         " fit: this model's maximum context length is ", model.max_model_len,
                         " tokens, less one to generate")));
  }
  StopConditions& stop = job->request.stop;
  if (stop.min_tokens > room) {
    return OutOfRange(names.min_tokens, stop.min_tokens,
                      absl::StrCat("0 .. ", room, ", what the prompt leaves of the context"));
  }
  stop.max_tokens = std::min(stop.max_tokens, room);
  job->request.prompt = std::move(prompt);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TokenId>> ConvertPromptIds(absl::Span<const uint32_t> ids,
                                                      const ModelFacts& model,
                                                      const GenerationJob& job) {
  const absl::Span<const uint32_t> kept = Truncated(ids, job);
  // Longer prompts cannot fit whatever their ids are.
  if (kept.size() > static_cast<size_t>(model.max_model_len)) {
    return WithErrorCode(
        kContextLengthExceeded,
        InvalidField(
            job.names->token_ids,
            absl::StrCat("has ", kept.size(), " entries; this model's maximum context length is ",
                         model.max_model_len, " tokens")));
  }
  return ConvertTokenIds(job.names->token_ids, kept, model);
}

}  // namespace quire
