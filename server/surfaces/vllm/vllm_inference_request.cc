#include "server/surfaces/vllm/vllm_inference_request.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/request/asked_constraint.h"
#include "server/request/field_error.h"
#include "server/request/media_kinds.h"
#include "server/request/random_id.h"

namespace quire {

namespace {

constexpr FieldNames kVllmInferenceNames = {
    .text = "text",
    .token_ids = "token_ids",
    .top_p = "sampling.top_p",
    .top_k = "sampling.top_k",
    .min_p = "sampling.min_p",
    .repetition_penalty = "decoding.repetition_penalty",
    .presence_penalty = "decoding.presence_penalty",
    .frequency_penalty = "decoding.frequency_penalty",
    .n = "sampling.num_sequences",
    .logit_bias = "decoding.logit_bias",
    .max_tokens = "stopping.max_new_tokens",
    .min_tokens = "stopping.min_new_tokens",
    .stop_strings = "stopping.stop_strings",
    .stop_token_ids = "stopping.stop_token_ids",
    .constraint = "decoding.structured_output",
    .logprobs = "response.output_candidates",
    .prompt_logprobs = "response.prompt_candidates",
    .cache_salt = "kv.cache_salt",
};

constexpr int32_t kMaxInt = std::numeric_limits<int32_t>::max();

int32_t AtMostMaxInt(uint32_t value) {
  return static_cast<int32_t>(std::min<uint32_t>(value, kMaxInt));
}

// Refuses what this server does not have.
absl::Status CheckAbsent(const ::vllm::GenerateRequest& request) {
  if (request.decoding().has_structural_tag()) {
    return UnimplementedField("decoding.structural_tag",
                              "is not supported yet; use json, regex or grammar");
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

absl::StatusOr<Prompt> TakePrompt(::vllm::GenerateRequest& request) {
  switch (request.prompt_case()) {
    case ::vllm::GenerateRequest::kText:
      return TextPrompt{.text = std::move(*request.mutable_text())};
    case ::vllm::GenerateRequest::kTokenIds:
      return TokenIdsPrompt(request.token_ids().ids().begin(), request.token_ids().ids().end());
    default:
      return InvalidField(kVllmInferenceNames.prompt, "is missing; send text or token_ids");
  }
}

void FillSampling(const ::vllm::GenerateRequest& request, const ModelFacts& model,
                  Generation* asked) {
  if (request.has_temperature()) {
    asked->temperature = request.temperature();
  } else if (!model.defaults.temperature) {
    asked->temperature = 0;
  }
  const ::vllm::RandomSampling& from = request.sampling();
  if (from.top_k() != 0) asked->top_k = std::min(AtMostMaxInt(from.top_k()), 1 << 30);
  if (from.top_p() != 0) asked->top_p = from.top_p();
  if (from.min_p() != 0) asked->min_p = from.min_p();
  if (from.has_seed()) asked->seed = static_cast<uint64_t>(from.seed());
  if (from.num_sequences() != 0) asked->n = AtMostMaxInt(from.num_sequences());
  const ::vllm::DecodingParameters& decoding = request.decoding();
  asked->presence_penalty = decoding.presence_penalty();
  asked->frequency_penalty = decoding.frequency_penalty();
  asked->repetition_penalty =
      decoding.repetition_penalty() != 0 ? decoding.repetition_penalty() : 1.0f;
  asked->logit_bias.insert(decoding.logit_bias().begin(), decoding.logit_bias().end());
}

absl::Status FillConstraint(::vllm::DecodingParameters& decoding, Generation* asked) {
  using Kind = ConstraintSpec::Kind;
  using Decoding = ::vllm::DecodingParameters;
  asked->has_reasoning = true;  // the client tells reasoning apart
  switch (decoding.structured_output_case()) {
    case Decoding::kJson: {
      ASSIGN_OR_RETURN(asked->constraint, ConstraintOfSchemaText("decoding.json", decoding.json()));
      break;
    }
    case Decoding::kRegex:
      asked->constraint = {.kind = Kind::kRegex,
                           .text = std::move(*decoding.mutable_regex()),
                           .field = "decoding.regex"};
      break;
    case Decoding::kGrammar:
      asked->constraint = {.kind = Kind::kGrammar,
                           .text = std::move(*decoding.mutable_grammar()),
                           .field = "decoding.grammar"};
      break;
    case Decoding::kChoice: {
      const auto& choices = decoding.choice().choices();
      ASSIGN_OR_RETURN(asked->constraint,
                       ConstraintOfChoices("decoding.choice", {choices.begin(), choices.end()}));
      break;
    }
    case Decoding::kJsonObject:
      if (decoding.json_object()) asked->constraint = ConstraintOfObjects("decoding.json_object");
      break;
    case Decoding::kStructuralTag:
    case Decoding::STRUCTURED_OUTPUT_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

void FillStop(const ::vllm::StoppingCriteria& from, Generation* asked) {
  constexpr int64_t kDefaultMaxNewTokens = 20;
  asked->max_tokens = from.max_new_tokens() != 0 ? from.max_new_tokens() : kDefaultMaxNewTokens;
  asked->min_tokens = from.min_new_tokens();
  asked->stop_token_ids.assign(from.stop_token_ids().begin(), from.stop_token_ids().end());
  asked->stop_strings.assign(from.stop_strings().begin(), from.stop_strings().end());
  asked->include_stop_in_output = from.include_stop_strings();
  asked->ignore_eos = from.ignore_eos();
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

absl::Status FillOutput(const ::vllm::ResponseOptions& options, Generation* asked) {
  asked->return_token_ids = true;  // they are counted
  asked->skip_special_tokens = !options.has_skip_special_tokens() || options.skip_special_tokens();
  ASSIGN_OR_RETURN(const int32_t num_output,
                   NumCandidates(options.output_candidates(), kVllmInferenceNames.logprobs));
  ASSIGN_OR_RETURN(const int32_t num_prompt,
                   NumCandidates(options.prompt_candidates(), kVllmInferenceNames.prompt_logprobs));
  if (options.output_logprobs() || num_output > 0) asked->logprobs = num_output;
  if (options.prompt_logprobs() || num_prompt > 0) asked->prompt_logprobs = num_prompt;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Generation> FromVllmInference(::vllm::GenerateRequest request,
                                             const ModelFacts& model) {
  RETURN_IF_ERROR(CheckAbsent(request));
  Generation asked;
  asked.names = &kVllmInferenceNames;
  asked.request_id = std::move(*request.mutable_request_id());
  asked.model = std::move(*request.mutable_model());
  asked.priority = request.priority();
  // Nobody else's beginning has a salt that nobody knows.
  asked.cache_salt = request.kv().bypass_prefix_cache()
                         ? RandomId()
                         : std::move(*request.mutable_kv()->mutable_cache_salt());
  ASSIGN_OR_RETURN(asked.prompt, TakePrompt(request));
  if (request.truncate_prompt_tokens() > 0) {
    asked.truncate_prompt_tokens = request.truncate_prompt_tokens();
  }
  FillSampling(request, model, &asked);
  FillStop(request.stopping(), &asked);
  RETURN_IF_ERROR(FillConstraint(*request.mutable_decoding(), &asked));
  RETURN_IF_ERROR(FillOutput(request.response(), &asked));
  return asked;
}

}  // namespace quire
