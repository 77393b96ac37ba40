#include "engine/model/model_family.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace quire {
namespace {

constexpr ModelFamily kFamilies[] = {
    {.architecture = "LlamaForCausalLM",
     .model_type = "llama",
     .vocab_size = 32000,
     .intermediate_size = 11008,
     .num_kv_heads = std::nullopt,
     .head_dim = std::nullopt,
     .max_position_embeddings = 2048,
     .sliding_window = std::nullopt,
     .bos_token_id = 1,
     .eos_token_id = 2,
     .window_rule = WindowRule::kNone,
     .always_qkv_bias = false,
     .has_attention_bias = true,
     .has_mlp_bias = true,
     .qk_norm = false},
    {.architecture = "MistralForCausalLM",
     .model_type = "mistral",
     .vocab_size = 32000,
     .intermediate_size = 14336,
     .num_kv_heads = 8,
     .head_dim = std::nullopt,
     .max_position_embeddings = 131072,
     .sliding_window = 4096,
     .bos_token_id = 1,
     .eos_token_id = 2,
     .window_rule = WindowRule::kEveryLayer,
     .always_qkv_bias = false,
     .has_attention_bias = false,
     .has_mlp_bias = false,
     .qk_norm = false},
    {.architecture = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .vocab_size = 151936,
     .intermediate_size = 22016,
     .num_kv_heads = 32,
     .head_dim = std::nullopt,
     .max_position_embeddings = 32768,
     .sliding_window = 4096,
     .bos_token_id = std::nullopt,
     .eos_token_id = std::nullopt,
     .window_rule = WindowRule::kUpperLayers,
     .always_qkv_bias = true,
     .has_attention_bias = false,
     .has_mlp_bias = false,
     .qk_norm = false},
    {.architecture = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .vocab_size = 151936,
     .intermediate_size = 22016,
     .num_kv_heads = 32,
     .head_dim = 128,
     .max_position_embeddings = 32768,
     .sliding_window = 4096,
     .bos_token_id = std::nullopt,
     .eos_token_id = std::nullopt,
     .window_rule = WindowRule::kUpperLayers,
     .always_qkv_bias = false,
     .has_attention_bias = true,
     .has_mlp_bias = false,
     .qk_norm = true},
};

const ModelFamily* FindFamily(absl::string_view ModelFamily::*field, absl::string_view value) {
  for (const ModelFamily& family : kFamilies) {
    if (family.*field == value) return &family;
  }
  return nullptr;
}

}  // namespace

const ModelFamily* FindFamilyByArchitecture(absl::string_view architecture) {
  return FindFamily(&ModelFamily::architecture, architecture);
}

const ModelFamily* FindFamilyByModelType(absl::string_view model_type) {
  return FindFamily(&ModelFamily::model_type, model_type);
}

std::string SupportedArchitectures() {
  return absl::StrJoin(kFamilies, ", ", [](std::string* out, const ModelFamily& family) {
    absl::StrAppend(out, family.architecture);
  });
}

}  // namespace quire
