// Models whose MLPs are mixtures of experts: config.json of each family as it is published, what
// sparse ones leave out, and what does not fit together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/engine/model/test_configs.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

json With(json config, const json& changes) {
  config.merge_patch(changes);
  return config;
}

json Qwen3Moe(const json& changes = json::object()) {
  return With(json::parse(R"({
    "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "decoder_sparse_step": 1,
    "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048,
    "intermediate_size": 6144, "max_position_embeddings": 40960, "max_window_layers": 48,
    "mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 768,
    "norm_topk_prob": true, "num_attention_heads": 32, "num_experts": 128,
    "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
    "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0, "sliding_window": null,
    "tie_word_embeddings": false, "torch_dtype": "bfloat16", "use_sliding_window": false,
    "vocab_size": 151936})"),
              changes);
}

json Glm4Moe(const json& changes = json::object()) {
  return With(json::parse(R"({
    "architectures": ["Glm4MoeForCausalLM"], "attention_bias": true,
    "eos_token_id": [151329, 151336, 151338], "head_dim": 128, "hidden_act": "silu",
    "hidden_size": 4096, "partial_rotary_factor": 0.5, "intermediate_size": 10944,
    "max_position_embeddings": 131072, "model_type": "glm4_moe", "moe_intermediate_size": 1408,
    "norm_topk_prob": true, "num_attention_heads": 96, "n_group": 1, "topk_group": 1,
    "n_routed_experts": 128, "n_shared_experts": 1, "routed_scaling_factor": 1.0,
    "num_experts_per_tok": 8, "first_k_dense_replace": 1, "num_hidden_layers": 46,
    "num_key_value_heads": 8, "num_nextn_predict_layers": 1, "rms_norm_eps": 1e-05,
    "rope_theta": 1000000, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
    "use_qk_norm": false, "vocab_size": 151552})"),
              changes);
}

json GptOss(const json& changes = json::object()) {
  return With(json::parse(R"({
    "architectures": ["GptOssForCausalLM"], "attention_bias": true, "eos_token_id": 200002,
    "experts_per_token": 4, "head_dim": 64, "hidden_act": "silu", "hidden_size": 2880,
    "initial_context_length": 4096, "intermediate_size": 2880,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
    "max_position_embeddings": 131072, "model_type": "gpt_oss", "num_attention_heads": 64,
    "num_experts_per_tok": 4, "num_hidden_layers": 4, "num_key_value_heads": 8,
    "num_local_experts": 32,
    "quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn",
        "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"], "quant_method": "mxfp4"},
    "rms_norm_eps": 1e-05, "rope_theta": 150000,
    "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
        "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false},
    "sliding_window": 128, "swiglu_limit": 7.0, "tie_word_embeddings": false,
    "vocab_size": 201088})"),
              changes);
}

std::vector<bool> RoutedLayers(const ModelConfig& config) {
  std::vector<bool> routed;
  for (const LayerConfig& layer : config.layers) routed.push_back(layer.mlp == MlpKind::kRouted);
  return routed;
}

TEST(MoeConfig, ReadsQwen3) {
  const ModelConfig c = Parse(Qwen3Moe());
  EXPECT_EQ(RoutedLayers(c), std::vector<bool>(48, true));
  const RoutedMlpConfig& mlp = c.layers[47].routed;
  EXPECT_EQ(mlp.router, (RouterRule{.num_experts = 128, .top_k = 8, .renormalise = true}));
  EXPECT_EQ(mlp.intermediate_size, 768);
  EXPECT_EQ(mlp.shared_intermediate_size, 0);
  EXPECT_FALSE(mlp.shared_gate || mlp.router_bias || mlp.router_correction || mlp.expert_bias);
  EXPECT_EQ(c.layers[47].intermediate_size, 0);
  EXPECT_EQ(c.layers[0].gqa.sliding_window, 0);
  EXPECT_EQ(c.qk_norm, HeadNorm::kHead);
  EXPECT_EQ(Parse(Qwen3Moe({{"use_sliding_window", true}, {"sliding_window", 99}}))
                .layers[5]
                .gqa.sliding_window,
            99);
}

TEST(MoeConfig, NumbersOfExpertsHaveThreeNames) {
  for (const char* key : {"num_local_experts", "n_routed_experts"}) {
    EXPECT_EQ(
        Parse(Qwen3Moe({{"num_experts", nullptr}, {key, 16}})).layers[0].routed.router.num_experts,
        16);
  }
  EXPECT_EQ(Parse(Qwen3Moe({{"num_local_experts", 128}})).layers[0].routed.router.num_experts, 128);
}

TEST(MoeConfig, DenseLayersAreThoseThatTheFamilySays) {
  const ModelConfig listed =
      Parse(Qwen3Moe({{"num_hidden_layers", 4}, {"mlp_only_layers", {0, 2}}}));
  EXPECT_EQ(RoutedLayers(listed), (std::vector<bool>{false, true, false, true}));
  EXPECT_EQ(listed.layers[2].intermediate_size, 6144);
  EXPECT_EQ(RoutedLayers(Parse(Qwen3Moe({{"num_hidden_layers", 5}, {"decoder_sparse_step", 2}}))),
            (std::vector<bool>{false, true, false, true, false}));
  EXPECT_EQ(RoutedLayers(Parse(Qwen3Moe({{"num_hidden_layers", 2}, {"num_experts", 0}}))),
            (std::vector<bool>{false, false}));
  EXPECT_EQ(RoutedLayers(Parse(Glm4Moe({{"num_hidden_layers", 4}, {"first_k_dense_replace", 3}}))),
            (std::vector<bool>{false, false, false, true}));
}

TEST(MoeConfig, ReadsGlm) {
  const ModelConfig c = Parse(Glm4Moe());
  EXPECT_EQ(c.layers[0].mlp, MlpKind::kGated);
  EXPECT_EQ(c.layers[0].intermediate_size, 10944);
  const RoutedMlpConfig& mlp = c.layers[1].routed;
  EXPECT_EQ(
      mlp.router,
      (RouterRule{
          .num_experts = 128, .top_k = 8, .score = RouterScore::kSigmoid, .renormalise = true}));
  EXPECT_EQ(mlp.shared_intermediate_size, 1408);
  EXPECT_TRUE(mlp.router_correction);
  EXPECT_FALSE(mlp.shared_gate || mlp.router_bias || mlp.expert_bias);
  EXPECT_TRUE(c.qkv_bias);
  EXPECT_FALSE(c.o_bias);
  EXPECT_EQ(c.qk_norm, HeadNorm::kNone);
  EXPECT_EQ(c.ropes[0].rotary_dim, 64);
  EXPECT_EQ(c.num_draft_layers, 1);
  EXPECT_EQ(Parse(Glm4Moe({{"use_qk_norm", true}})).qk_norm, HeadNorm::kHead);

  const RouterRule grouped = Parse(Glm4Moe({{"n_group", 8},
                                            {"topk_group", 4},
                                            {"norm_topk_prob", false},
                                            {"routed_scaling_factor", 2.5}}))
                                 .layers[1]
                                 .routed.router;
  EXPECT_EQ(grouped.num_groups, 8);
  EXPECT_EQ(grouped.top_groups, 4);
  EXPECT_EQ(grouped.group_score, GroupScore::kTwoBestSum);
  EXPECT_EQ(grouped.scale, 2.5f);
  EXPECT_FALSE(grouped.renormalise);
}

TEST(MoeConfig, ReadsGptOss) {
  const ModelConfig c = Parse(GptOss());
  const RoutedMlpConfig& mlp = c.layers[0].routed;
  EXPECT_EQ(mlp.router, (RouterRule{.num_experts = 32, .top_k = 4, .renormalise = true}));
  EXPECT_EQ(mlp.intermediate_size, 2880);
  EXPECT_TRUE(mlp.router_bias && mlp.expert_bias);
  EXPECT_EQ(c.activation, Activation::kClampedSwish);
  EXPECT_TRUE(c.attention_sinks && c.qkv_bias && c.o_bias);
  EXPECT_EQ(c.layers[0].gqa.sliding_window, 128);
  EXPECT_EQ(c.layers[1].gqa.sliding_window, 0);
  EXPECT_FALSE(c.ropes[0].truncate);
  EXPECT_EQ(MaxSequenceLength(c), 131072);
  EXPECT_EQ(c.quantization.Find("model.layers.0.mlp.experts.gate_up_proj")->group_columns, 32);
  EXPECT_FALSE(c.quantization.Find("model.layers.0.self_attn.q_proj")->quantized());

  // The class's values, where the file says nothing.
  const ModelConfig sparse = Parse(Sparse("gpt_oss"));
  EXPECT_EQ(sparse.layers.size(), 36u);
  EXPECT_EQ(sparse.layers[35].routed.router.num_experts, 128);
  EXPECT_EQ(sparse.layers[34].gqa.sliding_window, 128);
  EXPECT_EQ(sparse.layers[35].gqa.sliding_window, 0);
  EXPECT_EQ(sparse.ropes, c.ropes);
}

TEST(MoeConfig, SparseFilesHaveTheClassesDefaults) {
  const ModelConfig qwen2 = Parse(Sparse("qwen2_moe"));
  EXPECT_EQ(qwen2.layers[0].routed.router, (RouterRule{.num_experts = 60, .top_k = 4}));
  EXPECT_EQ(qwen2.layers[0].routed.shared_intermediate_size, 5632);
  EXPECT_TRUE(qwen2.layers[0].routed.shared_gate);
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.o_bias);
  EXPECT_FALSE(Parse(With(Sparse("qwen2_moe"), {{"qkv_bias", false}})).qkv_bias);

  const ModelConfig mixtral = Parse(Sparse("mixtral"));
  EXPECT_EQ(mixtral.layers[0].routed.router,
            (RouterRule{.num_experts = 8, .top_k = 2, .renormalise = true}));
  EXPECT_EQ(mixtral.layers[0].routed.intermediate_size, 14336);
  EXPECT_EQ(mixtral.layers[0].gqa.sliding_window, 0);

  const ModelConfig next = Parse(Sparse("qwen3_next"));
  EXPECT_EQ(next.layers[0].attention, AttentionKind::kGatedDelta);
  EXPECT_EQ(next.layers[3].attention, AttentionKind::kGqa);
  EXPECT_EQ(next.layers[0].routed.router,
            (RouterRule{.num_experts = 512, .top_k = 10, .renormalise = true}));
  EXPECT_TRUE(next.layers[3].routed.shared_gate);

  const ModelConfig qwen35 = Parse({{"architectures", {"Qwen3_5MoeForConditionalGeneration"}},
                                    {"text_config", {{"norm_topk_prob", false}}}});
  EXPECT_EQ(qwen35.layers[39].routed.router,
            (RouterRule{.num_experts = 256, .top_k = 8, .renormalise = true}));
  EXPECT_EQ(qwen35.layers[0].routed.shared_intermediate_size, 512);
}

TEST(MoeConfig, WindowsOfQwen2MoeAreEvenLayersBelowALimit) {
  const ModelConfig c = Parse(With(Sparse("qwen2_moe"), {{"use_sliding_window", true},
                                                         {"sliding_window", 50},
                                                         {"max_window_layers", 3},
                                                         {"num_hidden_layers", 6}}));
  std::vector<int64_t> windows;
  for (const LayerConfig& layer : c.layers) windows.push_back(layer.gqa.sliding_window);
  EXPECT_EQ(windows, (std::vector<int64_t>{50, 0, 50, 0, 0, 0}));
}

TEST(MoeConfig, WhatDoesNotFitIsNamed) {
  struct Case {
    json config;
    const char* message;
  };
  const Case cases[] = {
      {Qwen3Moe({{"num_local_experts", 64}}),
       "num_experts (128) and num_local_experts (64) must be the same number"},
      {Qwen3Moe({{"num_experts", 4}}),
       "num_experts_per_tok (8) must be at most the number of experts (4)"},
      {Qwen3Moe({{"num_experts", 5000}}), "num_experts is 5000; it must be between 0 and 1024"},
      {Qwen3Moe({{"num_experts", 1}, {"num_experts_per_tok", 1}}),
       "the number of experts is 1; it must be at least 2"},
      {Glm4Moe({{"n_routed_experts", 0}}), "the number of experts is 0; it must be at least 2"},
      {GptOss({{"num_local_experts", 1}, {"num_experts_per_tok", 1}}),
       "the number of experts is 1; it must be at least 2"},
      {Qwen3Moe({{"num_experts_per_tok", 0}}), "num_experts_per_tok is 0"},
      {Qwen3Moe({{"num_experts_per_tok", 33}}), "num_experts_per_tok is 33"},
      {Qwen3Moe({{"moe_intermediate_size", 0}}), "moe_intermediate_size is 0"},
      {Qwen3Moe({{"mlp_only_layers", {48}}}), "mlp_only_layers"},
      {Qwen3Moe({{"decoder_sparse_step", 0}}), "decoder_sparse_step is 0"},
      {Glm4Moe({{"n_group", 3}}), "n_routed_experts (128) must be a multiple of n_group (3)"},
      {Glm4Moe({{"n_group", 4}, {"topk_group", 5}}), "topk_group (5) must be at most n_group (4)"},
      {Glm4Moe({{"n_group", 64}}), "n_group is 64; it must be between 1 and 32"},
      {Glm4Moe({{"n_routed_experts", 32}, {"n_group", 32}, {"topk_group", 16}}),
       "groups of one expert"},
      {Glm4Moe({{"n_group", 32}, {"topk_group", 1}}),
       "num_experts_per_tok (8) must be at most the 4 experts of topk_group (1) groups"},
      {Glm4Moe({{"first_k_dense_replace", 47}}), "first_k_dense_replace is 47"},
      {Glm4Moe({{"routed_scaling_factor", 0}}), "routed_scaling_factor"},
  };
  for (const Case& c : cases) {
    const absl::Status status = Error(c.config);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("config.json: "), HasSubstr(c.message)));
  }
}

TEST(MoeConfig, WhatIsNotSupportedIsNamed) {
  const std::pair<json, const char*> cases[] = {
      {GptOss({{"swiglu_limit", 6.5}}), "swiglu_limit 6.5 is not supported; supported is 7"},
      {Qwen3Moe({{"scoring_func", "sigmoid"}}), "supported is softmax"},
      {Glm4Moe({{"scoring_func", "softmax"}}), "supported is sigmoid"},
  };
  for (const auto& [config, message] : cases) {
    const absl::Status status = Error(config);
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr(message));
  }
}

}  // namespace
}  // namespace quire
