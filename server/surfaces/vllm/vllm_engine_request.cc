#include "server/surfaces/vllm/vllm_engine_request.h"

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "kernels/base/status_macros.h"
#include "server/request/field_error.h"
#include "server/request/media_kinds.h"

namespace quire {

namespace {

namespace vllm = ::vllm::grpc::engine;

// What this server has not.
absl::Status CheckAbsent(const vllm::GenerateRequest& request) {
  if (request.sampling_params().constraint_case() != vllm::SamplingParams::CONSTRAINT_NOT_SET) {
    return InvalidField("sampling_params.constraint",
                        "constrained decoding is not supported yet; send the request without it");
  }
  if (request.has_mm_inputs() || request.has_media_refs() || request.extra_mm_inputs_size() > 0) {
    return UnimplementedField("mm_inputs", WhyNoMedia("media"));
  }
  if (request.has_kv_transfer_params() || request.has_kv_transfer_params_json()) {
    return UnimplementedField("kv_transfer_params",
                              "this server transfers no KV cache: it computes prompts and answers");
  }
  if (request.data_parallel_rank() != 0) {
    return InvalidField("data_parallel_rank", absl::StrCat(request.data_parallel_rank(),
                                                           " does not exist; the only rank is 0"));
  }
  return absl::OkStatus();
}

// Beyond what fits an int32 everything is as good as off.
int32_t TopK(uint32_t top_k) { return static_cast<int32_t>(std::min<uint32_t>(top_k, 1 << 30)); }

absl::Status FillSampling(const vllm::SamplingParams& params, v1::Sampling* sampling) {
  sampling->set_temperature(params.has_temperature() ? params.temperature() : 1.0f);
  sampling->set_top_p(params.top_p() != 0 ? params.top_p() : 1.0f);
  sampling->set_top_k(TopK(params.top_k()));
  sampling->set_min_p(params.min_p());
  sampling->set_repetition_penalty(params.repetition_penalty() != 0 ? params.repetition_penalty()
                                                                    : 1.0f);
  sampling->set_presence_penalty(params.presence_penalty());
  sampling->set_frequency_penalty(params.frequency_penalty());
  if (params.has_seed()) sampling->set_seed(static_cast<uint64_t>(int64_t{params.seed()}));
  constexpr uint32_t kMaxInt = std::numeric_limits<int32_t>::max();
  if (params.n() != 0) sampling->set_n(static_cast<int32_t>(std::min(params.n(), kMaxInt)));
  for (const auto& [id, bias] : params.logit_bias()) {
    if (id < 0) {
      return InvalidField("sampling_params.logit_bias",
                          absl::StrCat("token id ", id, " is not in the vocabulary"));
    }
    (*sampling->mutable_logit_bias())[static_cast<uint32_t>(id)] = bias;
  }
  return absl::OkStatus();
}

void FillStop(vllm::SamplingParams& params, v1::Stop* stop) {
  // The model's own default does not count here.
  stop->set_max_tokens(params.has_max_tokens() ? params.max_tokens()
                                               : std::numeric_limits<int64_t>::max());
  stop->set_min_tokens(params.min_tokens());
  stop->mutable_stop_strings()->Swap(params.mutable_stop());
  stop->mutable_stop_token_ids()->Swap(params.mutable_stop_token_ids());
  stop->set_ignore_eos(params.ignore_eos());
  stop->set_include_stop_in_output(params.include_stop_str_in_output());
}

void FillOutput(const vllm::SamplingParams& params, v1::Output* output) {
  if (params.has_logprobs()) output->set_logprobs(params.logprobs());
  if (params.has_prompt_logprobs()) output->set_prompt_logprobs(params.prompt_logprobs());
  output->set_return_token_ids(true);
  output->set_skip_special_tokens(params.skip_special_tokens());
}

}  // namespace

absl::StatusOr<v1::GenerateRequest> FromVllmEngine(vllm::GenerateRequest request) {
  RETURN_IF_ERROR(CheckAbsent(request));
  v1::GenerateRequest converted;
  converted.set_request_id(std::move(*request.mutable_request_id()));
  switch (request.input_case()) {
    case vllm::GenerateRequest::kTokenized:
      converted.mutable_token_ids()->mutable_ids()->Swap(
          request.mutable_tokenized()->mutable_input_ids());
      break;
    case vllm::GenerateRequest::kText:
      converted.mutable_text()->set_text(std::move(*request.mutable_text()));
      break;
    case vllm::GenerateRequest::INPUT_NOT_SET:
      return InvalidField("input", "is missing; send tokenized or text");
  }
  vllm::SamplingParams& params = *request.mutable_sampling_params();
  if (params.has_truncate_prompt_tokens()) {
    converted.set_truncate_prompt_tokens(params.truncate_prompt_tokens());
  }
  RETURN_IF_ERROR(FillSampling(params, converted.mutable_sampling()));
  FillStop(params, converted.mutable_stop());
  FillOutput(params, converted.mutable_output());
  return converted;
}

absl::Status InVllmEngineTerms(absl::Status status) {
  const std::string field = FieldOf(status);
  absl::string_view rest = field;
  for (const absl::string_view part : {"sampling.", "stop.", "output."}) {
    if (!absl::ConsumePrefix(&rest, part)) continue;
    if (rest == "stop_strings") rest = "stop";
    if (rest == "include_stop_in_output") rest = "include_stop_str_in_output";
    return InField(absl::StrCat("sampling_params.", rest), std::move(status));
  }
  if (field == "truncate_prompt_tokens") {
    return InField("sampling_params.truncate_prompt_tokens", std::move(status));
  }
  if (field == "token_ids") return InField("tokenized.input_ids", std::move(status));
  if (field == "prompt") return InField("input", std::move(status));
  return status;
}

}  // namespace quire
