#include "server/surfaces/openai/common_fields.h"

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/request/random_id.h"

namespace quire {

namespace {

constexpr char kNoStructure[] =
    "this server does not constrain answers yet; leave it out, or ask for text";

// What no surface has, whatever the prompt.
void RefuseAbsent(FieldReader& fields) {
  for (const char* key :
       {"guided_json", "guided_regex", "guided_choice", "guided_grammar", "guided_decoding_backend",
        "guided_whitespace_pattern", "structured_outputs"}) {
    fields.Refuse(key, kNoStructure);
  }
  // llama.cpp's and SGLang's names.
  for (const char* key : {"grammar", "json_schema", "regex", "ebnf", "structural_tag"}) {
    fields.RefuseUnlessEmpty(key, kNoStructure);
  }
  if (const JsonTree* format = fields.Find("response_format")) {
    const JsonTree* type = format->Find("type");
    if (type == nullptr || type->text != "text") fields.Fail("response_format", kNoStructure);
  }
  fields.RefuseUnlessFalse("use_beam_search", "this server samples; it has no beam search");
  for (const char* key : {"bad_words", "allowed_token_ids", "logits_processors",
                          "kv_transfer_params", "prompt_embeds"}) {
    fields.Refuse(key, "is not supported by this server; leave it out");
  }
}

// What other servers call fields of ours: without effect they would do silently without.
void RefuseOtherNames(FieldReader& fields) {
  for (const auto& [theirs, ours] :
       {std::pair("repeat_penalty", "repetition_penalty"), std::pair("n_predict", "max_tokens"),
        std::pair("num_predict", "max_tokens"), std::pair("max_new_tokens", "max_tokens"),
        std::pair("n_probs", "logprobs"), std::pair("stop_sequences", "stop")}) {
    fields.Refuse(theirs, absl::StrCat("is not known here; did you mean ", ours, "?"));
  }
}

void FillBias(FieldReader& fields, v1::Sampling* sampling) {
  const JsonTree* bias = fields.Find("logit_bias");
  if (bias == nullptr) return;
  if (!bias->is_object()) {
    fields.Fail("logit_bias", "is not an object of token ids and numbers");
    return;
  }
  for (size_t i = 0; i < bias->items.size(); ++i) {
    uint32_t id = 0;
    if (!absl::SimpleAtoi(bias->keys[i], &id) || !bias->items[i].is_number()) {
      fields.Fail("logit_bias", "is not an object of token ids and numbers");
      return;
    }
    (*sampling->mutable_logit_bias())[id] = static_cast<float>(bias->items[i].number);
  }
}

void FillSampling(FieldReader& fields, v1::Sampling* sampling) {
  const auto number = [&fields](const char* key) { return fields.Number(key); };
  if (const auto v = number("temperature")) sampling->set_temperature(static_cast<float>(*v));
  if (const auto v = number("top_p")) sampling->set_top_p(static_cast<float>(*v));
  if (const auto v = number("min_p")) sampling->set_min_p(static_cast<float>(*v));
  if (const auto v = number("repetition_penalty")) {
    sampling->set_repetition_penalty(static_cast<float>(*v));
  }
  if (const auto v = number("presence_penalty")) {
    sampling->set_presence_penalty(static_cast<float>(*v));
  }
  if (const auto v = number("frequency_penalty")) {
    sampling->set_frequency_penalty(static_cast<float>(*v));
  }
  if (const auto v = fields.Int("top_k")) sampling->set_top_k(Clamp<int32_t>(*v));
  if (const auto v = fields.Int("seed")) sampling->set_seed(static_cast<uint64_t>(*v));
  if (const auto v = fields.Int("n")) sampling->set_n(Clamp<int32_t>(*v));
  FillBias(fields, sampling);
}

void FillStop(FieldReader& fields, v1::Stop* stop) {
  if (const auto v = fields.Int("min_tokens")) stop->set_min_tokens(*v);
  for (std::string& text : fields.Texts("stop")) stop->add_stop_strings(std::move(text));
  const std::vector<uint32_t> ids = fields.TokenIds("stop_token_ids");
  stop->mutable_stop_token_ids()->Add(ids.begin(), ids.end());
  if (const auto v = fields.Bool("ignore_eos")) stop->set_ignore_eos(*v);
  if (const auto v = fields.Bool("include_stop_str_in_output")) {
    stop->set_include_stop_in_output(*v);
  }
}

}  // namespace

absl::StatusOr<JsonTree> ParseBody(std::string_view body) {
  size_t num_values = 0;
  ASSIGN_OR_RETURN(JsonTree tree, ParseJsonTree(body, &num_values));
  if (!tree.is_object()) return absl::InvalidArgumentError("the body is not a JSON object");
  return tree;
}

v1::GenerateRequest FillCommon(FieldReader& fields, absl::string_view id_prefix,
                               absl::string_view asked_id) {
  v1::GenerateRequest request;
  RefuseAbsent(fields);
  RefuseOtherNames(fields);
  FillSampling(fields, request.mutable_sampling());
  FillStop(fields, request.mutable_stop());
  if (const auto v = fields.Bool("skip_special_tokens")) {
    request.mutable_output()->set_skip_special_tokens(*v);
  }
  if (const auto v = fields.Int("priority")) request.set_priority(Clamp<int32_t>(*v));
  if (const auto v = fields.Int("truncate_prompt_tokens")) request.set_truncate_prompt_tokens(*v);
  if (fields.Text("truncation_side").value_or("left") != "left") {
    fields.Fail("truncation_side", "this server drops the beginning of long prompts alone: left");
  }
  if (auto v = fields.Text("cache_salt")) request.set_cache_salt(*std::move(v));
  if (auto v = fields.Text("model")) request.set_model(*std::move(v));
  request.set_request_id(fields.Text("request_id").value_or(""));
  if (request.request_id().empty()) request.set_request_id(std::string(asked_id));
  if (request.request_id().empty()) {
    request.set_request_id(absl::StrCat(id_prefix, RandomId()));
  }
  return request;
}

}  // namespace quire
