#include "server/surfaces/vllm/vllm_inference_request.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/request/field_error.h"
#include "server/request/media_kinds.h"
#include "server/request/random_id.h"

namespace quire {

namespace {

constexpr int32_t kMaxInt = std::numeric_limits<int32_t>::max();

int32_t AtMostMaxInt(uint32_t value) {
  return static_cast<int32_t>(std::min<uint32_t>(value, kMaxInt));
}

// What this server has not.
absl::Status CheckAbsent(const ::vllm::GenerateRequest& request) {
  if (request.decoding().structured_output_case() !=
      ::vllm::DecodingParameters::STRUCTURED_OUTPUT_NOT_SET) {
    return InvalidField("decoding.structured_output",
                        "constrained decoding is not supported yet; send the request without it");
  }
  if (request.decoding().allowed_token_ids_size() > 0) {
    return UnimplementedField("decoding.allowed_token_ids",
                              "is not supported; use logit_bias to keep tokens out");
  }
  if (request.media_size() > 0) return UnimplementedField("media", WhyNoMedia("media"));
  if (!request.lora_name().empty()) {
    return UnimplementedField("lora_name", "this server has no adapters; leave it empty");
  }
  if (request.kv().has_kv_transfer_params() || request.kv().has_ec_transfer_params()) {
    return UnimplementedField("kv.kv_transfer_params",
                              "this server transfers no KV cache: it computes prompts and answers");
  }
  if (request.response().prompt_token_ids() && !request.has_token_ids()) {
    return UnimplementedField("response.prompt_token_ids",
                              "a text's ids are told by Tokenize of quire.v1.Inference");
  }
  return absl::OkStatus();
}

absl::Status SetPrompt(::vllm::GenerateRequest& request, v1::GenerateRequest* converted) {
  if (request.truncate_prompt_tokens() > 0) {
    converted->set_truncate_prompt_tokens(request.truncate_prompt_tokens());
  }
  if (request.prompt_case() == ::vllm::GenerateRequest::kText) {
    converted->mutable_text()->set_text(std::move(*request.mutable_text()));
    return absl::OkStatus();
  }
  if (request.prompt_case() != ::vllm::GenerateRequest::kTokenIds) {
    return InvalidField("prompt", "is missing; send text or token_ids");
  }
  converted->mutable_token_ids()->mutable_ids()->Swap(request.mutable_token_ids()->mutable_ids());
  return absl::OkStatus();
}

void FillSampling(const ::vllm::GenerateRequest& request, const ModelFacts& model,
                  v1::Sampling* sampling) {
  if (request.has_temperature()) {
    sampling->set_temperature(request.temperature());
  } else if (!model.defaults.temperature) {
    sampling->set_temperature(0);
  }
  const ::vllm::RandomSampling& from = request.sampling();
  if (from.top_k() != 0) sampling->set_top_k(std::min(AtMostMaxInt(from.top_k()), 1 << 30));
  if (from.top_p() != 0) sampling->set_top_p(from.top_p());
  if (from.min_p() != 0) sampling->set_min_p(from.min_p());
  if (from.has_seed()) sampling->set_seed(static_cast<uint64_t>(from.seed()));
  if (from.num_sequences() != 0) sampling->set_n(AtMostMaxInt(from.num_sequences()));
  const ::vllm::DecodingParameters& decoding = request.decoding();
  sampling->set_presence_penalty(decoding.presence_penalty());
  sampling->set_frequency_penalty(decoding.frequency_penalty());
  sampling->set_repetition_penalty(
      decoding.repetition_penalty() != 0 ? decoding.repetition_penalty() : 1.0f);
  *sampling->mutable_logit_bias() = decoding.logit_bias();
}

void FillStop(::vllm::StoppingCriteria& from, v1::Stop* stop) {
  constexpr int64_t kDefaultMaxNewTokens = 20;
  stop->set_max_tokens(from.max_new_tokens() != 0 ? from.max_new_tokens() : kDefaultMaxNewTokens);
  stop->set_min_tokens(from.min_new_tokens());
  stop->mutable_stop_token_ids()->Swap(from.mutable_stop_token_ids());
  stop->mutable_stop_strings()->Swap(from.mutable_stop_strings());
  stop->set_include_stop_in_output(from.include_stop_strings());
  stop->set_ignore_eos(from.ignore_eos());
}

// How many alternatives a position is to have.
absl::StatusOr<int32_t> NumCandidates(const ::vllm::CandidateTokens& candidates,
                                      absl::string_view field) {
  switch (candidates.select_case()) {
    case ::vllm::CandidateTokens::kTopN:
      return AtMostMaxInt(candidates.top_n());
    case ::vllm::CandidateTokens::SELECT_NOT_SET:
      return 0;
    default:
      return UnimplementedField(field, "only top_n is supported");
  }
}

absl::Status FillOutput(const ::vllm::ResponseOptions& options, v1::Output* output) {
  output->set_return_token_ids(true);  // they are counted
  output->set_skip_special_tokens(!options.has_skip_special_tokens() ||
                                  options.skip_special_tokens());
  ASSIGN_OR_RETURN(const int32_t num_output,
                   NumCandidates(options.output_candidates(), "response.output_candidates"));
  ASSIGN_OR_RETURN(const int32_t num_prompt,
                   NumCandidates(options.prompt_candidates(), "response.prompt_candidates"));
  if (options.output_logprobs() || num_output > 0) output->set_logprobs(num_output);
  if (options.prompt_logprobs() || num_prompt > 0) output->set_prompt_logprobs(num_prompt);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<v1::GenerateRequest> FromVllmInference(::vllm::GenerateRequest request,
                                                      const ModelFacts& model) {
  RETURN_IF_ERROR(CheckAbsent(request));
  v1::GenerateRequest converted;
  converted.set_request_id(std::move(*request.mutable_request_id()));
  converted.set_model(std::move(*request.mutable_model()));
  converted.set_priority(request.priority());
  // Nobody else's beginning has a salt that nobody knows.
  converted.set_cache_salt(request.kv().bypass_prefix_cache()
                               ? RandomId()
                               : std::move(*request.mutable_kv()->mutable_cache_salt()));
  RETURN_IF_ERROR(SetPrompt(request, &converted));
  FillSampling(request, model, converted.mutable_sampling());
  FillStop(*request.mutable_stopping(), converted.mutable_stop());
  RETURN_IF_ERROR(FillOutput(request.response(), converted.mutable_output()));
  return converted;
}

absl::Status InVllmInferenceTerms(absl::Status status) {
  constexpr std::array<std::pair<const char*, const char*>, 15> kNames = {{
      {"sampling.temperature", "temperature"},
      {"sampling.n", "sampling.num_sequences"},
      {"sampling.presence_penalty", "decoding.presence_penalty"},
      {"sampling.frequency_penalty", "decoding.frequency_penalty"},
      {"sampling.repetition_penalty", "decoding.repetition_penalty"},
      {"sampling.logit_bias", "decoding.logit_bias"},
      {"stop.max_tokens", "stopping.max_new_tokens"},
      {"stop.min_tokens", "stopping.min_new_tokens"},
      {"stop.stop_token_ids", "stopping.stop_token_ids"},
      {"stop.stop_strings", "stopping.stop_strings"},
      {"output.logprobs", "response.output_candidates"},
      {"output.prompt_logprobs", "response.prompt_candidates"},
      {"cache_salt", "kv.cache_salt"},
      {"token_ids", "token_ids"},
      {"priority", "priority"},
  }};
  const std::string field = FieldOf(status);
  for (const auto& [ours, theirs] : kNames) {
    if (field == ours) return InField(theirs, std::move(status));
  }
  return status;
}

}  // namespace quire
