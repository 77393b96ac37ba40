#include "engine/model/config/routed_families.h"

namespace quire {
namespace {

constexpr ModelFamily kQwen35Text = {.architecture = "Qwen3_5MoeForCausalLM",
                                     .model_type = "qwen3_5_moe_text",
                                     .vocab_size = 248320,
                                     .hidden_size = 2048,
                                     .intermediate_size = 512,
                                     .num_layers = 40,
                                     .num_q_heads = 16,
                                     .num_kv_heads = 2,
                                     .head_dim = 256,
                                     .max_position_embeddings = 32768,
                                     .partial_rotary_factor = 0.25,
                                     .full_attention_interval = 4,
                                     .routed = {.num_experts = 256,
                                                .top_k = 8,
                                                .intermediate_size = 512,
                                                .shared_intermediate_size = 512,
                                                .norm_topk_prob = std::nullopt},
                                     .has_attention_bias = true,
                                     .qk_norm = HeadNorm::kHead,
                                     .norm = NormKind::kRmsPlusOne};

constexpr ModelFamily Qwen35Conditional() {
  ModelFamily family = kQwen35Text;
  family.architecture = "Qwen3_5MoeForConditionalGeneration";
  family.model_type = "qwen3_5_moe";
  family.text_model_type = kQwen35Text.model_type;
  return family;
}

// Qwen3.5's layers with other sizes; and it reads norm_topk_prob.
constexpr ModelFamily Qwen3Next() {
  ModelFamily family = kQwen35Text;
  family.architecture = "Qwen3NextForCausalLM";
  family.model_type = "qwen3_next";
  family.vocab_size = 151936;
  family.intermediate_size = 5632;
  family.num_layers = 48;
  family.routed.num_experts = 512;
  family.routed.top_k = 10;
  family.routed.norm_topk_prob = true;
  return family;
}

constexpr ModelFamily kRouted[] = {
    kQwen35Text,
    Qwen35Conditional(),
    Qwen3Next(),
    {.architecture = "Qwen2MoeForCausalLM",
     .model_type = "qwen2_moe",
     .vocab_size = 151936,
     .hidden_size = 2048,
     .intermediate_size = 5632,
     .num_layers = 24,
     .num_q_heads = 16,
     .num_kv_heads = 16,
     .max_position_embeddings = 32768,
     .sliding_window = 4096,
     .routed = {.num_experts = 60,
                .top_k = 4,
                .intermediate_size = 1408,
                .shared_intermediate_size = 5632,
                .norm_topk_prob = false},
     .window_rule = WindowRule::kLowerEven,
     .has_qkv_bias = true,
     .out_bias = OutBias::kNone},
    {.architecture = "Qwen3MoeForCausalLM",
     .model_type = "qwen3_moe",
     .vocab_size = 151936,
     .hidden_size = 2048,
     .intermediate_size = 6144,
     .num_layers = 24,
     .num_kv_heads = 4,
     .max_position_embeddings = 32768,
     .sliding_window = 4096,
     .routed = {.num_experts = 128, .top_k = 8, .intermediate_size = 768, .norm_topk_prob = false},
     .window_rule = WindowRule::kAllIfUsed,
     .has_attention_bias = true,
     .qk_norm = HeadNorm::kHead},
    {.architecture = "MixtralForCausalLM",
     .model_type = "mixtral",
     .vocab_size = 32000,
     .intermediate_size = 14336,
     .num_kv_heads = 8,
     .norm_eps = 1e-5,
     .max_position_embeddings = 131072,
     .rope_theta = 1e6,
     .routed = {.names = ExpertNames::kMixtral,
                .num_experts = 8,
                .top_k = 2,
                .norm_topk_prob = std::nullopt},
     .bos_token_id = 1,
     .eos_token_ids = {2},
     .window_rule = WindowRule::kEveryLayer},
    {.architecture = "Glm4MoeForCausalLM",
     .model_type = "glm4_moe",
     .vocab_size = 151552,
     .intermediate_size = 10944,
     .num_layers = 46,
     .num_q_heads = 96,
     .num_kv_heads = 8,
     .norm_eps = 1e-5,
     .max_position_embeddings = 131072,
     .partial_rotary_factor = 0.5,
     .routed =
         {.names = ExpertNames::kGlm, .num_experts = 128, .top_k = 8, .intermediate_size = 1408},
     .has_attention_bias = true,
     .out_bias = OutBias::kNone,
     .qk_norm = HeadNorm::kHead,
     .has_use_qk_norm = true},
    {.architecture = "GptOssForCausalLM",
     .model_type = "gpt_oss",
     .vocab_size = 201088,
     .hidden_size = 2880,
     .intermediate_size = 2880,
     .num_layers = 36,
     .num_q_heads = 64,
     .num_kv_heads = 8,
     .head_dim = 64,
     .norm_eps = 1e-5,
     .max_position_embeddings = 131072,
     .rope_theta = 150000.0,
     .sliding_window = 128,
     .window_pattern = 2,
     .routed = {.names = ExpertNames::kGptOss,
                .num_experts = 128,
                .top_k = 4,
                .norm_topk_prob = std::nullopt},
     .stretches_rope = true,
     .window_rule = WindowRule::kPattern,
     .has_attention_bias = true,
     .attention_bias = true,
     .attention_sinks = true,
     .activation = Activation::kClampedSwish},
};

}  // namespace

absl::Span<const ModelFamily> RoutedFamilies() { return kRouted; }

}  // namespace quire
