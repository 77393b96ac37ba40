#include "server/surfaces/openai/common_fields.h"

#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/request/random_id.h"
#include "server/surfaces/openai/constraint_fields.h"

namespace quire {

void RefuseAbsent(FieldReader& fields) {
  for (const char* key : {"structural_tag", "guided_whitespace_pattern"}) {
    fields.RefuseUnlessEmpty(key, "is not supported; leave it out");
  }
  fields.RefuseUnlessFalse("use_beam_search", "this server samples; it has no beam search");
  for (const char* key : {"bad_words", "allowed_token_ids", "logits_processors",
                          "kv_transfer_params", "prompt_embeds"}) {
    fields.Refuse(key, "is not supported by this server; leave it out");
  }
}

namespace {

// Refuses other servers' names of our fields. Without this, they would silently have no effect.
void RefuseOtherNames(FieldReader& fields) {
  for (const auto& [theirs, ours] :
       {std::pair("repeat_penalty", "repetition_penalty"), std::pair("n_predict", "max_tokens"),
        std::pair("num_predict", "max_tokens"), std::pair("max_new_tokens", "max_tokens"),
        std::pair("n_probs", "logprobs"), std::pair("stop_sequences", "stop")}) {
    fields.RefuseName(theirs, ours);
  }
}

void FillBias(FieldReader& fields, Generation* asked) {
  const JsonTree* bias = fields.Find("logit_bias");
  if (bias == nullptr) return;
  bool is_sound = bias->is_object();
  for (size_t i = 0; is_sound && i < bias->items.size(); ++i) {
    uint32_t id = 0;
    is_sound = absl::SimpleAtoi(bias->keys[i], &id) && bias->items[i].is_number();
    asked->logit_bias[id] = static_cast<float>(bias->items[i].number);
  }
  if (!is_sound) fields.Fail("logit_bias", "is not an object of token ids and numbers");
}

void FillSampling(FieldReader& fields, Generation* asked) {
  asked->temperature = fields.Float("temperature");
  asked->top_p = fields.Float("top_p");
  asked->min_p = fields.Float("min_p");
  asked->repetition_penalty = fields.Float("repetition_penalty");
  asked->presence_penalty = fields.Float("presence_penalty").value_or(0);
  asked->frequency_penalty = fields.Float("frequency_penalty").value_or(0);
  if (const auto top_k = fields.Int("top_k")) asked->top_k = Clamp<int32_t>(*top_k);
  if (const auto seed = fields.Int("seed")) asked->seed = static_cast<uint64_t>(*seed);
  asked->n = Clamp<int32_t>(fields.Int("n").value_or(1));
  FillBias(fields, asked);
}

void FillStop(FieldReader& fields, Generation* asked) {
  asked->min_tokens = fields.Int("min_tokens").value_or(0);
  asked->stop_strings = fields.Texts("stop");
  asked->stop_token_ids = fields.TokenIds("stop_token_ids");
  asked->ignore_eos = fields.Bool("ignore_eos").value_or(false);
  asked->include_stop_in_output = fields.Bool("include_stop_str_in_output").value_or(false);
}

}  // namespace

absl::StatusOr<JsonTree> ParseBody(std::string_view body) {
  size_t num_values_left = kMaxJsonValues;
  absl::StatusOr<JsonTree> tree = ParseJsonTree(body, &num_values_left);
  if (!tree.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the body: ", tree.status().message()));
  }
  if (!tree->is_object()) return absl::InvalidArgumentError("the body is not a JSON object");
  return tree;
}

Generation FillCommon(FieldReader& fields, absl::string_view id_prefix,
                      absl::string_view asked_id) {
  Generation asked;
  RefuseAbsent(fields);
  RefuseOtherNames(fields);
  FillSampling(fields, &asked);
  FillStop(fields, &asked);
  FillConstraint(fields, &asked);
  asked.skip_special_tokens = fields.Bool("skip_special_tokens").value_or(true);
  asked.priority = Clamp<int32_t>(fields.Int("priority").value_or(0));
  asked.truncate_prompt_tokens = fields.Int("truncate_prompt_tokens");
  const std::string side = fields.Text("truncation_side").value_or("left");
  if (side != "left" && side != "right")
    fields.Fail("truncation_side", "is neither left nor right");
  asked.keeps_first_tokens = side == "right";
  asked.cache_salt = fields.Text("cache_salt").value_or("");
  asked.model = fields.Text("model").value_or("");
  asked.request_id = fields.Text("request_id").value_or("");
  if (asked.request_id.empty()) asked.request_id = std::string(asked_id);
  if (asked.request_id.empty()) asked.request_id = absl::StrCat(id_prefix, RandomId());
  return asked;
}

}  // namespace quire
