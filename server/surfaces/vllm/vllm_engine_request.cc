#include "server/surfaces/vllm/vllm_engine_request.h"

#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/request/asked_constraint.h"
#include "server/request/field_error.h"
#include "server/request/media_kinds.h"

namespace quire {

namespace {

namespace vllm = ::vllm::grpc::engine;

constexpr FieldNames kVllmEngineNames = {
    .prompt = "input",
    .text = "text",
    .token_ids = "tokenized.input_ids",
    .temperature = "sampling_params.temperature",
    .top_p = "sampling_params.top_p",
    .top_k = "sampling_params.top_k",
    .min_p = "sampling_params.min_p",
    .repetition_penalty = "sampling_params.repetition_penalty",
    .presence_penalty = "sampling_params.presence_penalty",
    .frequency_penalty = "sampling_params.frequency_penalty",
    .n = "sampling_params.n",
    .logit_bias = "sampling_params.logit_bias",
    .max_tokens = "sampling_params.max_tokens",
    .min_tokens = "sampling_params.min_tokens",
    .stop_strings = "sampling_params.stop",
    .stop_token_ids = "sampling_params.stop_token_ids",
    .constraint = "sampling_params.constraint",
    .logprobs = "sampling_params.logprobs",
    .prompt_logprobs = "sampling_params.prompt_logprobs",
    .truncate_prompt_tokens = "sampling_params.truncate_prompt_tokens",
};

// Refuses what this server does not have.
absl::Status CheckAbsent(const vllm::GenerateRequest& request) {
  if (request.sampling_params().has_structural_tag()) {
    return UnimplementedField("sampling_params.structural_tag",
                              "is not supported yet; use json_schema, regex or grammar");
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

absl::Status FillSampling(const vllm::SamplingParams& params, Generation* asked) {
  asked->temperature = params.has_temperature() ? params.temperature() : 1.0f;
  asked->top_p = params.top_p() != 0 ? params.top_p() : 1.0f;
  asked->top_k = TopK(params.top_k());
  asked->min_p = params.min_p();
  asked->repetition_penalty = params.repetition_penalty() != 0 ? params.repetition_penalty() : 1.0f;
  asked->presence_penalty = params.presence_penalty();
  asked->frequency_penalty = params.frequency_penalty();
  if (params.has_seed()) asked->seed = static_cast<uint64_t>(int64_t{params.seed()});
  constexpr uint32_t kMaxInt = std::numeric_limits<int32_t>::max();
  if (params.n() != 0) asked->n = static_cast<int32_t>(std::min(params.n(), kMaxInt));
  for (const auto& [id, bias] : params.logit_bias()) {
    if (id < 0) {
      return InvalidField(kVllmEngineNames.logit_bias,
                          absl::StrCat("token id ", id, " is not in the vocabulary"));
    }
    asked->logit_bias[static_cast<uint32_t>(id)] = bias;
  }
  return absl::OkStatus();
}

void FillStop(const vllm::SamplingParams& params, Generation* asked) {
  // The model's own default does not count here.
  asked->max_tokens =
      params.has_max_tokens() ? params.max_tokens() : std::numeric_limits<int64_t>::max();
  asked->min_tokens = params.min_tokens();
  asked->stop_strings.assign(params.stop().begin(), params.stop().end());
  asked->stop_token_ids.assign(params.stop_token_ids().begin(), params.stop_token_ids().end());
  asked->ignore_eos = params.ignore_eos();
  asked->include_stop_in_output = params.include_stop_str_in_output();
}

absl::Status FillConstraint(vllm::SamplingParams& params, Generation* asked) {
  using Kind = ConstraintSpec::Kind;
  // The router tells reasoning apart.
  asked->has_reasoning = !params.grammar_from_first_token();
  switch (params.constraint_case()) {
    case vllm::SamplingParams::kJsonSchema: {
      ASSIGN_OR_RETURN(asked->constraint,
                       ConstraintOfSchemaText("sampling_params.json_schema", params.json_schema()));
      break;
    }
    case vllm::SamplingParams::kRegex:
      asked->constraint = {.kind = Kind::kRegex,
                           .text = std::move(*params.mutable_regex()),
                           .field = "sampling_params.regex"};
      break;
    case vllm::SamplingParams::kGrammar:
      asked->constraint = {.kind = Kind::kGrammar,
                           .text = std::move(*params.mutable_grammar()),
                           .field = "sampling_params.grammar"};
      break;
    case vllm::SamplingParams::kChoice: {
      const auto& choices = params.choice().choices();
      ASSIGN_OR_RETURN(asked->constraint, ConstraintOfChoices("sampling_params.choice",
                                                              {choices.begin(), choices.end()}));
      break;
    }
    case vllm::SamplingParams::kJsonObject:
      if (params.json_object()) {
        asked->constraint = ConstraintOfObjects("sampling_params.json_object");
      }
      break;
    case vllm::SamplingParams::kStructuralTag:
    case vllm::SamplingParams::CONSTRAINT_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

void FillOutput(const vllm::SamplingParams& params, Generation* asked) {
  if (params.has_logprobs()) asked->logprobs = params.logprobs();
  if (params.has_prompt_logprobs()) asked->prompt_logprobs = params.prompt_logprobs();
  asked->return_token_ids = true;
  asked->skip_special_tokens = params.skip_special_tokens();
}

}  // namespace

absl::StatusOr<Generation> FromVllmEngine(vllm::GenerateRequest request) {
  RETURN_IF_ERROR(CheckAbsent(request));
  Generation asked;
  asked.names = &kVllmEngineNames;
  asked.request_id = std::move(*request.mutable_request_id());
  switch (request.input_case()) {
    case vllm::GenerateRequest::kTokenized: {
      const auto& ids = request.tokenized().input_ids();
      asked.prompt = TokenIdsPrompt(ids.begin(), ids.end());
      break;
    }
    case vllm::GenerateRequest::kText:
      asked.prompt = TextPrompt{.text = std::move(*request.mutable_text())};
      break;
    case vllm::GenerateRequest::INPUT_NOT_SET:
      return InvalidField(kVllmEngineNames.prompt, "is missing; send tokenized or text");
  }
  vllm::SamplingParams& params = *request.mutable_sampling_params();
  if (params.has_truncate_prompt_tokens()) {
    asked.truncate_prompt_tokens = params.truncate_prompt_tokens();
  }
  RETURN_IF_ERROR(FillSampling(params, &asked));
  FillStop(params, &asked);
  FillOutput(params, &asked);
  RETURN_IF_ERROR(FillConstraint(params, &asked));
  return asked;
}

}  // namespace quire
