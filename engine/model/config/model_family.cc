#include "engine/model/config/model_family.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/config/routed_families.h"

namespace quire {
namespace {

constexpr ModelFamily kFamilies[] = {
    {.architecture = "LlamaForCausalLM",
     .model_type = "llama",
     .vocab_size = 32000,
     .intermediate_size = 11008,
     .max_position_embeddings = 2048,
     .bos_token_id = 1,
     .eos_token_ids = {2},
     .has_attention_bias = true,
     .has_mlp_bias = true},
    {.architecture = "MistralForCausalLM",
     .model_type = "mistral",
     .vocab_size = 32000,
     .intermediate_size = 14336,
     .num_kv_heads = 8,
     .max_position_embeddings = 131072,
     .sliding_window = 4096,
     .bos_token_id = 1,
     .eos_token_ids = {2},
     .window_rule = WindowRule::kEveryLayer},
    {.architecture = "Qwen2ForCausalLM",
     .model_type = "qwen2",
     .vocab_size = 151936,
     .intermediate_size = 22016,
     .num_kv_heads = 32,
     .max_position_embeddings = 32768,
     .sliding_window = 4096,
     .window_rule = WindowRule::kUpperLayers,
     .attention_bias = true,
     .out_bias = OutBias::kNone},
    {.architecture = "Qwen3ForCausalLM",
     .model_type = "qwen3",
     .vocab_size = 151936,
     .intermediate_size = 22016,
     .num_kv_heads = 32,
     .head_dim = 128,
     .max_position_embeddings = 32768,
     .sliding_window = 4096,
     .window_rule = WindowRule::kUpperLayers,
     .has_attention_bias = true,
     .qk_norm = HeadNorm::kHead},
    {.architecture = "Qwen3_5ForCausalLM",
     .model_type = "qwen3_5_text",
     .vocab_size = 248320,
     .intermediate_size = 12288,
     .num_q_heads = 16,
     .num_kv_heads = 4,
     .head_dim = 256,
     .max_position_embeddings = 32768,
     .partial_rotary_factor = 0.25,
     .full_attention_interval = 4,
     .has_attention_bias = true,
     .qk_norm = HeadNorm::kHead,
     .norm = NormKind::kRmsPlusOne},
    {.architecture = "Gemma2ForCausalLM",
     .model_type = "gemma2",
     .vocab_size = 256000,
     .hidden_size = 2304,
     .intermediate_size = 9216,
     .num_layers = 26,
     .num_q_heads = 8,
     .num_kv_heads = 4,
     .head_dim = 256,
     .tie_word_embeddings = true,
     .max_position_embeddings = 8192,
     .sliding_window = 4096,
     .window_pattern = 2,
     .attention_soft_cap = 50.0,
     .logit_soft_cap = 30.0,
     .bos_token_id = 2,
     .eos_token_ids = {1},
     .window_rule = WindowRule::kPattern,
     .has_attention_bias = true,
     .block_order = BlockOrder::kSandwich,
     .norm = NormKind::kRmsPlusOne,
     .scales_embedding = true,
     .activation = Activation::kGeluTanh,
     .has_soft_caps = true,
     .query_pre_attn_scalar = 256},
    {.architecture = "Gemma3ForCausalLM",
     .model_type = "gemma3_text",
     .vocab_size = 262208,
     .hidden_size = 2304,
     .intermediate_size = 9216,
     .num_layers = 26,
     .num_q_heads = 8,
     .num_kv_heads = 4,
     .head_dim = 256,
     .tie_word_embeddings = true,
     .max_position_embeddings = 131072,
     .rope_theta = 1e6,
     .rope_local_base_freq = 10000.0,
     .sliding_window = 4096,
     .window_pattern = 6,
     .bos_token_id = 2,
     .eos_token_ids = {1},
     .window_rule = WindowRule::kPattern,
     .has_attention_bias = true,
     .qk_norm = HeadNorm::kHead,
     .positions_are_stretched = true,
     .block_order = BlockOrder::kSandwich,
     .norm = NormKind::kRmsPlusOne,
     .scales_embedding = true,
     .activation = Activation::kGeluTanh,
     .has_soft_caps = true,
     .query_pre_attn_scalar = 256},
    {.architecture = "Gemma4ForCausalLM",
     .model_type = "gemma4_text",
     .vocab_size = 262144,
     .hidden_size = 2304,
     .intermediate_size = 9216,
     .num_layers = 30,
     .num_q_heads = 8,
     .num_kv_heads = 4,
     .head_dim = 256,
     .tie_word_embeddings = true,
     .max_position_embeddings = 131072,
     .rope_theta = 1e6,
     .rope_local_base_freq = 10000.0,
     .sliding_window = 512,
     .window_pattern = 6,
     .global_head_dim = 512,
     .proportional_rotary_factor = 0.25,
     .per_layer_input_size = 256,
     .bos_token_id = 2,
     .eos_token_ids = {1},
     .window_rule = WindowRule::kPattern,
     .has_attention_bias = true,
     .qk_norm = HeadNorm::kHead,
     .block_order = BlockOrder::kSandwich,
     .v_norm = true,
     .layer_scalars = true,
     .scales_embedding = true,
     .activation = Activation::kGeluTanh,
     .has_soft_caps = true,
     .attention_scale = 1},
    {.architecture = "Phi3ForCausalLM",
     .model_type = "phi3",
     .vocab_size = 32064,
     .hidden_size = 3072,
     .intermediate_size = 8192,
     .norm_eps = 1e-5,
     .max_position_embeddings = 4096,
     .bos_token_id = 1,
     .eos_token_ids = {32000},
     .window_rule = WindowRule::kEveryLayer,
     .fused_checkpoint = true},
    {.architecture = "Ministral3ForCausalLM",
     .model_type = "ministral3",
     .vocab_size = 131072,
     .intermediate_size = 14336,
     .num_layers = 34,
     .num_kv_heads = 8,
     .head_dim = 128,
     .norm_eps = 1e-5,
     .max_position_embeddings = 262144,
     .rope_theta = 1e6,
     .scales_queries = true,
     .bos_token_id = 1,
     .eos_token_ids = {2},
     .window_rule = WindowRule::kEveryLayer},
    {.architecture = "Glm4ForCausalLM",
     .model_type = "glm4",
     .vocab_size = 151552,
     .intermediate_size = 13696,
     .num_layers = 40,
     .num_kv_heads = 2,
     .head_dim = 128,
     .norm_eps = 1.5625e-7,
     .max_position_embeddings = 131072,
     .partial_rotary_factor = 0.5,
     .rotates_neighbours = true,
     .eos_token_ids = {151329, 151336, 151338},
     .has_attention_bias = true,
     .attention_bias = true,
     .out_bias = OutBias::kNone,
     .block_order = BlockOrder::kSandwich,
     .sandwich_names = SandwichNames::kGlm},
    {.architecture = "Olmo3ForCausalLM",
     .model_type = "olmo3",
     .vocab_size = 50304,
     .intermediate_size = 11008,
     .norm_eps = 1e-5,
     .max_position_embeddings = 2048,
     .rope_theta = 5e5,
     .rope_local_base_freq = 5e5,
     .sliding_window = 4096,
     .window_pattern = 4,
     .eos_token_ids = {50279},
     .window_rule = WindowRule::kPattern,
     .has_attention_bias = true,
     .qk_norm = HeadNorm::kRow,
     .block_order = BlockOrder::kPostNorm},
    {.architecture = "Exaone4ForCausalLM",
     .model_type = "exaone4",
     .vocab_size = 102400,
     .intermediate_size = 16384,
     .num_kv_heads = 32,
     .norm_eps = 1e-5,
     .max_position_embeddings = 2048,
     .sliding_window = 4096,
     .window_pattern = 4,
     .window_ropes = WindowRopes::kWindowsOfHybrid,
     .bos_token_id = 0,
     .eos_token_ids = {2},
     .window_rule = WindowRule::kPattern,
     .qk_norm = HeadNorm::kHead,
     .block_order = BlockOrder::kPostNorm},
    {.architecture = "SeedOssForCausalLM",
     .model_type = "seed_oss",
     .vocab_size = 155136,
     .intermediate_size = 27648,
     .num_layers = 64,
     .num_q_heads = 80,
     .num_kv_heads = 8,
     .head_dim = 128,
     .max_position_embeddings = 524288,
     .bos_token_id = 0,
     .eos_token_ids = {2},
     .has_attention_bias = true,
     .attention_bias = true,
     .out_bias = OutBias::kOwnKey,
     .has_mlp_bias = true},
    {.architecture = "GraniteForCausalLM",
     .model_type = "granite",
     .vocab_size = 32000,
     .intermediate_size = 11008,
     .max_position_embeddings = 2048,
     .bos_token_id = 1,
     .eos_token_ids = {2},
     .has_attention_bias = true,
     .has_mlp_bias = true,
     .has_multipliers = true},
    {.architecture = "GraniteMoeHybridForCausalLM",
     .model_type = "granitemoehybrid",
     .vocab_size = 32000,
     .intermediate_size = 1024,
     .max_position_embeddings = 2048,
     .bos_token_id = 1,
     .eos_token_ids = {2},
     .has_attention_bias = true,
     .shared_mlp = true,
     .has_multipliers = true},
    {.architecture = "Cohere2ForCausalLM",
     .model_type = "cohere2",
     .vocab_size = 256000,
     .hidden_size = 8192,
     .intermediate_size = 22528,
     .num_layers = 40,
     .num_q_heads = 64,
     .norm_eps = 1e-5,
     .tie_word_embeddings = true,
     .max_position_embeddings = 8192,
     .rotates_neighbours = true,
     .sliding_window = 4096,
     .window_pattern = 4,
     .window_ropes = WindowRopes::kWindows,
     .bos_token_id = 5,
     .eos_token_ids = {255001},
     .window_rule = WindowRule::kPattern,
     .has_attention_bias = true,
     .block_order = BlockOrder::kParallel,
     .norm = NormKind::kLayer,
     .logit_scale = 0.0625},
    {.architecture = "SmolLM3ForCausalLM",
     .model_type = "smollm3",
     .vocab_size = 128256,
     .hidden_size = 2048,
     .intermediate_size = 11008,
     .num_layers = 36,
     .num_q_heads = 16,
     .num_kv_heads = 4,
     .tie_word_embeddings = true,
     .max_position_embeddings = 32768,
     .rope_theta = 2e6,
     .no_rope_interval = 4,
     .bos_token_id = 128000,
     .eos_token_ids = {128001},
     .window_rule = WindowRule::kWithoutRope,
     .has_attention_bias = true,
     .has_mlp_bias = true},
};

constexpr ModelFamily RowOf(absl::string_view model_type) {
  return *std::find_if(std::begin(kFamilies), std::end(kFamilies),
                       [&](const ModelFamily& family) { return family.model_type == model_type; });
}

// The row of a model of several parts whose text part is like `text`.
constexpr ModelFamily Wrapper(absl::string_view architecture, absl::string_view model_type,
                              absl::string_view text_model_type, ModelFamily text) {
  text.architecture = architecture;
  text.model_type = model_type;
  text.text_model_type = text_model_type;
  return text;
}

constexpr ModelFamily Qwen25VlText() {
  ModelFamily text = RowOf("qwen2");
  text.text_keys_at_top = true;  // as transformers wrote it before 4.52
  text.vocab_size = 152064;
  text.hidden_size = 8192;
  text.intermediate_size = 29568;
  text.num_layers = 80;
  text.num_q_heads = 64;
  text.num_kv_heads = 8;
  text.norm_eps = 1e-5;
  text.rope_theta = 1e6;
  text.max_window_layers = 80;
  text.bos_token_id = 151643;
  text.eos_token_ids = {151645};
  return text;
}

constexpr ModelFamily Qwen3VlText() {
  ModelFamily text = RowOf("qwen3");
  text.max_position_embeddings = 128000;
  text.rope_theta = 5e5;
  text.window_rule = WindowRule::kNone;
  return text;
}

constexpr ModelFamily Gemma4UnifiedText() {
  ModelFamily text = RowOf("gemma4_text");
  text.max_position_embeddings = 262144;
  text.sliding_window = 1024;
  text.per_layer_input_size = 0;
  return text;
}

constexpr ModelFamily kWrappers[] = {
    Wrapper("Mistral3ForConditionalGeneration", "mistral3", "mistral", RowOf("mistral")),
    Wrapper("Mistral3ForConditionalGeneration", "mistral3", "ministral3", RowOf("ministral3")),
    Wrapper("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", "qwen2_5_vl_text", Qwen25VlText()),
    Wrapper("Qwen3VLForConditionalGeneration", "qwen3_vl", "qwen3_vl_text", Qwen3VlText()),
    Wrapper("Gemma3ForConditionalGeneration", "gemma3", "gemma3_text", RowOf("gemma3_text")),
    Wrapper("Gemma4ForConditionalGeneration", "gemma4", "gemma4_text", RowOf("gemma4_text")),
    Wrapper("Gemma4UnifiedForConditionalGeneration", "gemma4_unified", "gemma4_unified_text",
            Gemma4UnifiedText()),
    Wrapper("Qwen3_5ForConditionalGeneration", "qwen3_5", "qwen3_5_text", RowOf("qwen3_5_text")),
};

std::vector<const ModelFamily*> AllFamilies() {
  std::vector<const ModelFamily*> all;
  for (const ModelFamily& family : kFamilies) all.push_back(&family);
  for (const ModelFamily& family : RoutedFamilies()) all.push_back(&family);
  for (const ModelFamily& family : kWrappers) all.push_back(&family);
  return all;
}

const ModelFamily* FindFamily(absl::string_view ModelFamily::*field, absl::string_view value) {
  for (const ModelFamily* family : AllFamilies()) {
    if (family->*field == value) return family;
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

const ModelFamily* FindFamilyByTextType(absl::string_view architecture,
                                        absl::string_view text_model_type) {
  for (const ModelFamily* family : AllFamilies()) {
    if (family->architecture == architecture && !family->text_model_type.empty() &&
        family->text_model_type == text_model_type) {
      return family;
    }
  }
  return nullptr;
}

absl::string_view OtherPurpose(const std::vector<std::string>& architectures,
                               absl::string_view model_type) {
  constexpr absl::string_view kEmbeds =
      "this is an embedding model, which turns text into vectors, and /v1/embeddings is not there "
      "yet; name a model that generates text";
  constexpr absl::string_view kJudges =
      "this is a classifier or reranker, which gives scores, and neither /v1/score nor /v1/rerank "
      "is there yet; name a model that generates text";
  // Encoders, which read text and write none.
  constexpr absl::string_view kEncoders[] = {
      "albert", "bert",  "camembert", "deberta",    "deberta-v2", "distilbert", "electra",
      "gte",    "mpnet", "new",       "nomic_bert", "modernbert", "roberta",    "xlm-roberta"};
  if (architectures.empty()) {
    return std::find(std::begin(kEncoders), std::end(kEncoders), model_type) != std::end(kEncoders)
               ? kEmbeds
               : "";
  }
  const std::string& name = architectures.front();
  for (const absl::string_view end :
       {"ForSequenceClassification", "ForTokenClassification", "RewardModel"}) {
    if (absl::EndsWith(name, end)) return kJudges;
  }
  const bool has_language_head =
      absl::EndsWith(name, "HeadModel") || absl::EndsWith(name, "HeadsModel");  // "GPT2LMHeadModel"
  const bool embeds = absl::EndsWith(name, "Model") || absl::EndsWith(name, "ForMaskedLM") ||
                      absl::StrContains(name, "Embedding");
  return embeds && !has_language_head ? kEmbeds : "";
}

std::string SupportedArchitectures() {
  std::vector<absl::string_view> names;
  for (const ModelFamily* family : AllFamilies()) {
    if (names.empty() || names.back() != family->architecture)
      names.push_back(family->architecture);
  }
  return absl::StrJoin(names, ", ");
}

std::string SupportedTextTypes(absl::string_view architecture) {
  std::vector<absl::string_view> types;
  for (const ModelFamily* family : AllFamilies()) {
    if (family->architecture == architecture) types.push_back(family->text_model_type);
  }
  return absl::StrJoin(types, ", ");
}

}  // namespace quire
