#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/engine/model/test_configs.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<int64_t> WindowsOf(const ModelConfig& config) {
  std::vector<int64_t> windows;
  windows.reserve(config.layers.size());
  for (const LayerConfig& layer : config.layers) windows.push_back(layer.gqa.sliding_window);
  return windows;
}

TEST(ModelConfig, ReadsLlamaInV4Form) {
  const ModelConfig c = Parse(Llama());
  EXPECT_EQ(c.architecture, "LlamaForCausalLM");
  EXPECT_EQ(c.model_type, "llama");
  EXPECT_EQ(c.vocab_size, 128256);
  EXPECT_EQ(c.hidden_size, 4096);
  EXPECT_EQ(c.layers[0].intermediate_size, 14336);
  EXPECT_EQ(c.layers.size(), 32);
  EXPECT_EQ(c.layers[0].gqa.num_q_heads, 32);
  EXPECT_EQ(c.layers[0].gqa.num_kv_heads, 8);
  EXPECT_EQ(c.layers[0].gqa.head_dim, 128);
  EXPECT_FLOAT_EQ(c.norm_eps, 1e-5f);
  EXPECT_FALSE(c.qkv_bias || c.o_bias || c.mlp_bias || c.tie_word_embeddings);
  EXPECT_EQ(c.max_position_embeddings, 131072);
  EXPECT_THAT(WindowsOf(c), AllOf(testing::SizeIs(32), Each(0)));
  EXPECT_EQ(c.dtype, DType::kBF16);
  EXPECT_THAT(c.eos_token_ids, ElementsAre(128001, 128008, 128009));
  EXPECT_EQ(c.bos_token_id, 128000);
  EXPECT_EQ(c.ropes[0].type, RopeType::kLlama3);
  EXPECT_EQ(c.ropes[0].theta, 500000.0);
  EXPECT_EQ(c.ropes[0].factor, 8.0);
  EXPECT_EQ(c.ropes[0].low_freq_factor, 1.0);
  EXPECT_EQ(c.ropes[0].high_freq_factor, 4.0);
  EXPECT_EQ(c.ropes[0].original_max_position_embeddings, 8192);
}

TEST(ModelConfig, ReadsTheV5Form) {
  json config = Llama({{"rope_scaling", nullptr},
                       {"rope_theta", nullptr},
                       {"torch_dtype", nullptr},
                       {"dtype", "float16"}});
  config["rope_parameters"] = {{"rope_type", "yarn"},
                               {"rope_theta", 1e6},
                               {"factor", 4.0},
                               {"original_max_position_embeddings", 32768}};
  const ModelConfig c = Parse(config);
  EXPECT_EQ(c.dtype, DType::kF16);
  EXPECT_EQ(c.ropes[0].type, RopeType::kYarn);
  EXPECT_EQ(c.ropes[0].theta, 1e6);
  EXPECT_EQ(c.ropes[0].factor, 4.0);
  EXPECT_EQ(c.ropes[0].original_max_position_embeddings, 32768);
}

TEST(ModelConfig, SparseConfigsGetTheFamilysDefaults) {
  const ModelConfig llama = Parse(Sparse("llama"));
  EXPECT_EQ(llama.architecture, "LlamaForCausalLM");
  EXPECT_EQ(llama.vocab_size, 32000);
  EXPECT_EQ(llama.hidden_size, 4096);
  EXPECT_EQ(llama.layers[0].intermediate_size, 11008);
  EXPECT_EQ(llama.layers.size(), 32);
  EXPECT_EQ(llama.layers[0].gqa.num_q_heads, 32);
  EXPECT_EQ(llama.layers[0].gqa.num_kv_heads, 32);
  EXPECT_EQ(llama.layers[0].gqa.head_dim, 128);
  EXPECT_EQ(llama.max_position_embeddings, 2048);
  EXPECT_FLOAT_EQ(llama.norm_eps, 1e-6f);
  EXPECT_EQ(llama.ropes[0].theta, 10000.0);
  EXPECT_EQ(llama.ropes[0].type, RopeType::kDefault);
  EXPECT_EQ(llama.dtype, DType::kF32);
  EXPECT_THAT(llama.eos_token_ids, ElementsAre(2));
  EXPECT_EQ(llama.bos_token_id, 1);
  EXPECT_THAT(WindowsOf(llama), Each(0));

  const ModelConfig mistral = Parse(Sparse("mistral"));
  EXPECT_EQ(mistral.layers[0].gqa.num_kv_heads, 8);
  EXPECT_EQ(mistral.layers[0].intermediate_size, 14336);
  EXPECT_EQ(mistral.max_position_embeddings, 131072);
  EXPECT_THAT(WindowsOf(mistral), Each(4096));

  const ModelConfig qwen2 = Parse(Sparse("qwen2"));
  EXPECT_EQ(qwen2.vocab_size, 151936);
  EXPECT_EQ(qwen2.layers[0].intermediate_size, 22016);
  EXPECT_EQ(qwen2.max_position_embeddings, 32768);
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.o_bias);
  EXPECT_THAT(qwen2.eos_token_ids, IsEmpty());
  EXPECT_EQ(qwen2.bos_token_id, std::nullopt);
  EXPECT_THAT(WindowsOf(qwen2), Each(0));

  const ModelConfig qwen3 = Parse({{"model_type", "qwen3"},
                                   {"hidden_size", 1024},
                                   {"num_attention_heads", 16},
                                   {"num_key_value_heads", 8}});
  EXPECT_EQ(qwen3.layers[0].gqa.head_dim, 128);  // not 1024 / 16
  EXPECT_EQ(qwen3.qk_norm, HeadNorm::kHead);
  EXPECT_FALSE(qwen3.qkv_bias || qwen3.o_bias);
}

// A small vocabulary has no token of a family's larger one.
TEST(ModelConfig, TokensOfTheFamilyAreOfTheVocabulary) {
  json config = Sparse("llama");
  config["vocab_size"] = 2;  // the family ends with 2 and begins with 1
  EXPECT_THAT(Parse(config).eos_token_ids, IsEmpty());
  EXPECT_EQ(Parse(config).bos_token_id, 1);
  config["vocab_size"] = 1;
  EXPECT_EQ(Parse(config).bos_token_id, std::nullopt);
  config["vocab_size"] = 3;
  EXPECT_THAT(Parse(config).eos_token_ids, ElementsAre(2));
}

TEST(ModelConfig, ExplicitNullIsNotTheDefault) {
  json mistral = Sparse("mistral");
  mistral["sliding_window"] = nullptr;
  mistral["num_key_value_heads"] = nullptr;
  mistral["eos_token_id"] = nullptr;
  mistral["bos_token_id"] = nullptr;
  const ModelConfig c = Parse(mistral);
  EXPECT_THAT(WindowsOf(c), Each(0));
  EXPECT_EQ(c.layers[0].gqa.num_kv_heads, 32);
  EXPECT_THAT(c.eos_token_ids, IsEmpty());
  EXPECT_EQ(c.bos_token_id, std::nullopt);
  json qwen3 = Sparse("qwen3");
  qwen3["head_dim"] = nullptr;
  qwen3["hidden_size"] = 2048;
  EXPECT_EQ(Parse(qwen3).layers[0].gqa.head_dim, 64);
}

TEST(ModelConfig, BiasesFollowTheFamily) {
  const ModelConfig llama = Parse(Llama({{"attention_bias", true}, {"mlp_bias", true}}));
  EXPECT_TRUE(llama.qkv_bias && llama.o_bias && llama.mlp_bias);
  const json both = {{"attention_bias", true}, {"mlp_bias", true}};
  const auto with_both = [&](const char* model_type) {
    json config = Sparse(model_type);
    config.update(both);
    return Parse(config);
  };
  EXPECT_FALSE(with_both("mistral").qkv_bias || with_both("mistral").mlp_bias);
  EXPECT_FALSE(with_both("qwen2").o_bias);
  EXPECT_TRUE(with_both("qwen3").o_bias && with_both("qwen3").qkv_bias);
  EXPECT_FALSE(with_both("qwen3").mlp_bias);
}

TEST(ModelConfig, WindowsByFamilyRule) {
  json qwen = {{"model_type", "qwen2"},
               {"num_hidden_layers", 4},
               {"sliding_window", 100},
               {"max_window_layers", 3}};
  EXPECT_THAT(WindowsOf(Parse(qwen)), ElementsAre(0, 0, 0, 0));
  qwen["use_sliding_window"] = true;
  EXPECT_THAT(WindowsOf(Parse(qwen)), ElementsAre(0, 0, 0, 100));
  qwen["max_window_layers"] = 9;
  EXPECT_THAT(WindowsOf(Parse(qwen)), ElementsAre(0, 0, 0, 0));
  const json mistral = {{"model_type", "mistral"}, {"num_hidden_layers", 2}, {"sliding_window", 7}};
  EXPECT_THAT(WindowsOf(Parse(mistral)), ElementsAre(7, 7));
}

TEST(ModelConfig, LayersWithoutRope) {
  const auto with_rope = [](const json& config) {
    std::vector<bool> all;
    for (const LayerConfig& layer : Parse(config).layers) all.push_back(layer.gqa.rope == 0);
    return all;
  };
  json config = {{"model_type", "smollm3"}, {"num_hidden_layers", 4}, {"sliding_window", 7}};
  EXPECT_THAT(with_rope(config), ElementsAre(true, true, true, false));
  EXPECT_THAT(WindowsOf(Parse(config)), Each(0));
  config["use_sliding_window"] = true;
  config["no_rope_layer_interval"] = 2;
  EXPECT_THAT(with_rope(config), ElementsAre(true, false, true, false));
  EXPECT_THAT(WindowsOf(Parse(config)), ElementsAre(0, 7, 0, 7));
  config["no_rope_layers"] = {0, 1, 1, 1};
  EXPECT_THAT(with_rope(config), ElementsAre(false, true, true, true));
  EXPECT_THAT(WindowsOf(Parse(config)), ElementsAre(7, 0, 0, 0));
  config["no_rope_layers"] = {0, 1};
  EXPECT_THAT(Error(config).message(),
              HasSubstr("no_rope_layers has 2 entries; num_hidden_layers is 4"));
  config["no_rope_layers"] = {0, 1, 2, 1};
  EXPECT_THAT(Error(config).message(), HasSubstr("no_rope_layers"));
  // Other families know no such key.
  config = {{"model_type", "llama"}, {"num_hidden_layers", 2}, {"no_rope_layers", {0, 0}}};
  EXPECT_THAT(with_rope(config), Each(true));
}

TEST(ModelConfig, LayerTypesWin) {
  json config = {{"model_type", "mistral"},
                 {"num_hidden_layers", 3},
                 {"sliding_window", 7},
                 {"layer_types", {"full_attention", "sliding_attention", "full_attention"}}};
  EXPECT_THAT(WindowsOf(Parse(config)), ElementsAre(0, 7, 0));
  config["sliding_window"] = nullptr;
  EXPECT_THAT(Error(config).message(), HasSubstr("sliding_window is off"));
  config["layer_types"] = {"full_attention"};
  EXPECT_THAT(Error(config).message(),
              HasSubstr("layer_types has 1 entries; num_hidden_layers is 3"));
  config["layer_types"] = {"full_attention", "linear_attention", "full_attention"};
  EXPECT_TRUE(absl::IsUnimplemented(Error(config)));
  EXPECT_THAT(Error(config).message(), HasSubstr("layer_types: \"linear_attention\""));
}

TEST(ModelConfig, DuplicateKeysAreTolerated) {
  const auto parsed =
      ParseModelConfig(R"({"model_type": "llama", "vocab_size": 1, "vocab_size": 9})");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->vocab_size, 9);
}

TEST(ModelConfig, UnsupportedThingsAreNamed) {
  struct Case {
    json changes;
    const char* message;
  };
  const Case cases[] = {
      {{{"architectures", {"DbrxForCausalLM"}}}, "DbrxForCausalLM"},
      {{{"architectures", {"DbrxForCausalLM"}}},
       "supported are LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, "
       "Qwen3_5ForCausalLM, Gemma2ForCausalLM, Gemma3ForCausalLM, Gemma4ForCausalLM, "
       "Phi3ForCausalLM"},
      {{{"architectures", {"LlamaForSequenceClassification"}}}, "LlamaForSequenceClassification"},
      {{{"architectures", nullptr}, {"model_type", "gemma3n"}}, "gemma3n"},
      {{{"architectures", nullptr}, {"model_type", nullptr}}, "supported are"},
      {{{"quantization_config", {{"quant_method", "exl3"}}}}, "quant_method \"exl3\""},
      {{{"hidden_act", "gelu"}}, "hidden_act \"gelu\""},
      {{{"torch_dtype", "float8_e4m3fn"}}, "torch_dtype \"float8_e4m3fn\""},
      {{{"rope_scaling", {{"rope_type", "axial"}}}}, "rope_type \"axial\""},
      {{{"rope_scaling", {{"rope_type", nullptr}, {"type", "ntk"}}}}, "rope_type \"ntk\""},
  };
  for (const Case& c : cases) {
    const absl::Status status = Error(Llama(c.changes));
    EXPECT_TRUE(absl::IsUnimplemented(status)) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("config.json: "), HasSubstr(c.message)));
  }
}

TEST(ModelConfig, ValuesOutOfRangeNameTheirKey) {
  struct Case {
    json changes;
    const char* message;
  };
  const Case cases[] = {
      {{{"vocab_size", 0}}, "vocab_size is 0; it must be between 1 and 1048576"},
      {{{"vocab_size", (1 << 20) + 1}}, "vocab_size is 1048577; it must be between 1 and 1048576"},
      {{{"hidden_size", -1}}, "hidden_size is -1"},
      {{{"hidden_size", "4096"}}, "hidden_size must be an integer, not \"4096\""},
      {{{"intermediate_size", 1ULL << 62}}, "intermediate_size is 4611686018427387904"},
      {{{"num_hidden_layers", 1000000}}, "num_hidden_layers is 1000000"},
      {{{"num_attention_heads", 1e300}}, "num_attention_heads must be an integer, not 1e+300"},
      {{{"num_key_value_heads", 5}},
       "num_attention_heads (32) must be a multiple of num_key_value_heads (5)"},
      {{{"head_dim", 33}}, "head_dim (33) must be even"},
      {{{"hidden_size", 16}}, "head_dim (0) must be even and at least 2"},
      {{{"max_position_embeddings", 0}}, "max_position_embeddings is 0"},
      {{{"rms_norm_eps", -1e-6}}, "rms_norm_eps is -1e-06"},
      {{{"attention_bias", 1}}, "attention_bias must be true or false, not 1"},
      {{{"eos_token_id", {1, 128256}}}, "eos_token_id is 128256; it must be between 0 and 128255"},
      {{{"bos_token_id", -1}}, "bos_token_id is -1"},
      {{{"architectures", "LlamaForCausalLM"}}, "architectures must be a list of strings"},
      {{{"rope_theta", 0}}, "rope_theta is 0"},
      {{{"rope_scaling", {{"factor", 0}}}}, "rope_scaling: factor is 0"},
      {{{"rope_scaling", {{"factor", nullptr}}}}, "rope_scaling: factor is missing"},
      {{{"rope_scaling", {{"low_freq_factor", 4}}}},
       "high_freq_factor (4) must be greater than low_freq_factor (4)"},
      {{{"partial_rotary_factor", 0.01}}, "head_dim * partial_rotary_factor is 1; it must be even"},
      {{{"partial_rotary_factor", 0.001}},
       "head_dim * partial_rotary_factor is 0; it must be even and at least 2"},
      {{{"layer_types", "full_attention"}}, "layer_types must be a list of strings"},
      {{{"quantization_config", "fp8"}}, "quantization_config must be an object"},
  };
  for (const Case& c : cases) {
    const absl::Status status = Error(Llama(c.changes));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.message << ": " << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("config.json: "), HasSubstr(c.message)));
  }
}

TEST(ModelConfig, GemmaBlocks) {
  const ModelConfig gemma2 = Parse(Sparse("gemma2"));
  EXPECT_EQ(gemma2.activation, Activation::kGeluTanh);
  EXPECT_EQ(gemma2.norm, NormKind::kRmsPlusOne);
  EXPECT_EQ(gemma2.block_order, BlockOrder::kSandwich);
  EXPECT_TRUE(gemma2.tie_word_embeddings);
  EXPECT_EQ(gemma2.embedding_scale, 48.0f);         // sqrt(2304)
  EXPECT_EQ(gemma2.attention_scale, 1.0f / 16.0f);  // 256^-0.5
  EXPECT_EQ(gemma2.attention_soft_cap, 50.0f);
  EXPECT_EQ(gemma2.logit_soft_cap, 30.0f);
  EXPECT_EQ(WindowsOf(gemma2)[0], 4096);
  EXPECT_EQ(WindowsOf(gemma2)[1], 0);
  json config = Sparse("gemma3_text");
  config["query_pre_attn_scalar"] = 64;
  config["sliding_window"] = 512;
  config["sliding_window_pattern"] = 3;
  const ModelConfig gemma3 = Parse(config);
  EXPECT_EQ(gemma3.qk_norm, HeadNorm::kHead);
  EXPECT_EQ(gemma3.attention_scale, 0.125f);
  EXPECT_EQ(gemma3.attention_soft_cap, 0.0f);
  std::vector<int64_t> windows = WindowsOf(gemma3);
  windows.resize(6);
  EXPECT_THAT(windows, ElementsAre(512, 512, 0, 512, 512, 0));
  config = Sparse("gemma2");
  config["attn_logit_softcapping"] = nullptr;
  EXPECT_EQ(Parse(config).attention_soft_cap, 0.0f);
  config["hidden_activation"] = "relu";
  EXPECT_THAT(Error(config).message(), HasSubstr("hidden_activation \"relu\""));
}

// Phi-4-mini's config.json, the factors shortened to one number.
TEST(ModelConfig, Phi4Mini) {
  json config = json::parse(R"({
    "architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "attention_bias": false,
    "bos_token_id": 199999, "eos_token_id": 199999, "hidden_act": "silu", "hidden_size": 3072,
    "intermediate_size": 8192, "max_position_embeddings": 131072, "num_attention_heads": 24,
    "num_hidden_layers": 32, "num_key_value_heads": 8, "original_max_position_embeddings": 4096,
    "pad_token_id": 199999, "partial_rotary_factor": 0.75, "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0, "sliding_window": 262144, "tie_word_embeddings": true,
    "torch_dtype": "bfloat16", "vocab_size": 200064})");
  config["rope_scaling"] = {{"type", "longrope"},
                            {"short_factor", std::vector<double>(48, 1)},
                            {"long_factor", std::vector<double>(48, 4)}};
  const ModelConfig c = Parse(config);
  EXPECT_TRUE(c.tie_word_embeddings && c.fused_checkpoint);
  EXPECT_EQ(c.layers[0].gqa.num_kv_heads, 8);
  EXPECT_EQ(c.layers[0].gqa.head_dim, 128);
  EXPECT_EQ(c.ropes[0].type, RopeType::kLongRope);
  EXPECT_EQ(c.ropes[0].rotary_dim, 96);
  EXPECT_EQ(c.ropes[0].factor, 32);
  EXPECT_EQ(c.ropes[0].original_max_position_embeddings, 4096);
  EXPECT_EQ(MaxSequenceLength(c), 131072);
}

TEST(ModelConfig, Glm4sDefaults) {
  const ModelConfig glm4 = Parse(Sparse("glm4"));
  EXPECT_EQ(glm4.architecture, "Glm4ForCausalLM");
  EXPECT_EQ(glm4.block_order, BlockOrder::kSandwich);
  EXPECT_EQ(glm4.sandwich_names, SandwichNames::kGlm);
  EXPECT_EQ(glm4.norm, NormKind::kRms);
  EXPECT_TRUE(glm4.qkv_bias);
  EXPECT_FALSE(glm4.o_bias || glm4.mlp_bias || glm4.tie_word_embeddings);
  EXPECT_EQ(glm4.layers.size(), 40u);
  EXPECT_EQ(glm4.layers[0].gqa.num_kv_heads, 2);
  EXPECT_EQ(glm4.norm_eps, 1.5625e-7f);
  EXPECT_THAT(glm4.eos_token_ids, ElementsAre(151329, 151336, 151338));
  json config = Sparse("glm4");
  config.update({{"attention_bias", false}, {"attention_out_bias", true}});
  EXPECT_FALSE(Parse(config).qkv_bias || Parse(config).o_bias);
}

TEST(ModelConfig, Cohere2sDefaults) {
  const ModelConfig c = Parse(Sparse("cohere2"));
  EXPECT_EQ(c.architecture, "Cohere2ForCausalLM");
  EXPECT_EQ(c.block_order, BlockOrder::kParallel);
  EXPECT_EQ(c.norm, NormKind::kLayer);
  EXPECT_EQ(c.norm_eps, 1e-5f);
  EXPECT_EQ(c.logit_scale, 0.0625f);
  EXPECT_TRUE(c.tie_word_embeddings);
  EXPECT_FALSE(c.qkv_bias || c.o_bias || c.mlp_bias);
  EXPECT_EQ(c.layers[0].gqa.num_kv_heads, 64);
  EXPECT_THAT(c.eos_token_ids, ElementsAre(255001));
  std::vector<int64_t> windows = WindowsOf(c);
  windows.resize(5);
  EXPECT_THAT(windows, ElementsAre(4096, 4096, 4096, 0, 4096));
  json config = Sparse("cohere2");
  config.update({{"layer_norm_eps", 1e-3}, {"rms_norm_eps", 1e-2}, {"logit_scale", 0.25}});
  EXPECT_EQ(Parse(config).norm_eps, 1e-3f);
  EXPECT_EQ(Parse(config).logit_scale, 0.25f);
  config["logit_scale"] = 0;
  EXPECT_THAT(Error(config).message(), HasSubstr("logit_scale is 0"));
  config["model_type"] = "llama";  // knows no such keys
  EXPECT_EQ(Parse(config).norm_eps, 1e-2f);
  EXPECT_EQ(Parse(config).logit_scale, 1.0f);
}

TEST(ModelConfig, NormsMayStandBehindBlocksOnly) {
  const ModelConfig olmo3 = Parse(Sparse("olmo3"));
  EXPECT_EQ(olmo3.block_order, BlockOrder::kPostNorm);
  EXPECT_EQ(olmo3.qk_norm, HeadNorm::kRow);
  EXPECT_EQ(olmo3.norm_eps, 1e-5f);
  EXPECT_THAT(olmo3.eos_token_ids, ElementsAre(50279));
  std::vector<int64_t> windows = WindowsOf(olmo3);
  windows.resize(5);
  EXPECT_THAT(windows, ElementsAre(4096, 4096, 4096, 0, 4096));
  const ModelConfig exaone4 = Parse(Sparse("exaone4"));
  EXPECT_EQ(exaone4.block_order, BlockOrder::kPostNorm);
  EXPECT_EQ(exaone4.qk_norm, HeadNorm::kHead);
  EXPECT_EQ(exaone4.layers[0].gqa.num_kv_heads, 32);
}

TEST(ModelConfig, BiasesOfAttentionAndOfItsOutput) {
  json config = Sparse("seed_oss");
  EXPECT_TRUE(Parse(config).qkv_bias);
  EXPECT_FALSE(Parse(config).o_bias || Parse(config).mlp_bias);
  EXPECT_EQ(Parse(config).layers[0].gqa.head_dim, 128);
  EXPECT_EQ(Parse(config).layers[0].gqa.num_q_heads, 80);
  config["attention_bias"] = false;
  config["attention_out_bias"] = true;
  EXPECT_FALSE(Parse(config).qkv_bias);
  EXPECT_TRUE(Parse(config).o_bias);
  // Where the family has no such key, one says both.
  EXPECT_TRUE(Parse(Llama({{"attention_bias", true}, {"attention_out_bias", false}})).o_bias);
}

TEST(ModelConfig, Multipliers) {
  const ModelConfig plain = Parse(Sparse("granite"));
  EXPECT_EQ(plain.attention_scale, 1.0f);  // not head_dim^-0.5
  EXPECT_EQ(plain.embedding_scale, 1.0f);
  EXPECT_EQ(plain.residual_scale, 1.0f);
  EXPECT_EQ(plain.logit_scale, 1.0f);
  json config = Sparse("granite");
  config.update({{"attention_multiplier", 0.015625},
                 {"embedding_multiplier", 12},
                 {"residual_multiplier", 0.25},
                 {"logits_scaling", 8}});
  const ModelConfig c = Parse(config);
  EXPECT_EQ(c.attention_scale, 0.015625f);
  EXPECT_EQ(c.embedding_scale, 12.0f);
  EXPECT_EQ(c.residual_scale, 0.25f);
  EXPECT_EQ(c.logit_scale, 0.125f);
  config["logits_scaling"] = 0;
  EXPECT_THAT(Error(config).message(), HasSubstr("logits_scaling is 0"));
  config["model_type"] = "llama";  // knows no such keys
  EXPECT_EQ(Parse(config).embedding_scale, 1.0f);
}

// Granite 4's dense models, whose class also has experts and Mamba layers.
TEST(ModelConfig, WhatIsLeftWithoutExperts) {
  json config = {{"model_type", "granitemoehybrid"}, {"num_hidden_layers", 2},
                 {"num_local_experts", 0},           {"layer_types", {"attention", "attention"}},
                 {"intermediate_size", 77},          {"shared_intermediate_size", 88},
                 {"position_embedding_type", "rope"}};
  EXPECT_EQ(Parse(config).layers[1].intermediate_size, 88);
  EXPECT_EQ(Parse(config).layers[1].gqa.rope, 0);
  config["position_embedding_type"] = "nope";
  EXPECT_EQ(Parse(config).layers[1].gqa.rope, -1);
  config["position_embedding_type"] = nullptr;
  EXPECT_EQ(Parse(config).layers[1].gqa.rope, -1);
  config["num_local_experts"] = 4;
  EXPECT_THAT(Error(config).message(), HasSubstr("num_local_experts is not 0"));
  config["num_local_experts"] = 0;
  config["layer_types"][1] = "mamba";
  EXPECT_THAT(Error(config).message(), HasSubstr("layer_types: \"mamba\" is not supported"));
  config.erase("layer_types");
  EXPECT_THAT(Error(config).message(), HasSubstr("the others are Mamba layers"));
  EXPECT_TRUE(absl::IsUnimplemented(Error(config)));
  config["layers_block_type"] = {"attention", "attention"};
  EXPECT_EQ(Parse(config).layers.size(), 2);
}

}  // namespace
}  // namespace quire
