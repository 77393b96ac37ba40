// Gemma 4's config.json: layers of two sizes in both spellings, shared caches, inputs of each
// layer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/model/config/model_config.h"
#include "tests/engine/model/test_configs.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

// As published files of the 31B have it.
json Gemma431B() {
  return json::parse(R"({
    "architectures": ["Gemma4ForConditionalGeneration"], "model_type": "gemma4",
    "eos_token_id": [1, 106], "image_token_id": 258880, "tie_word_embeddings": true,
    "text_config": {"attention_k_eq_v": true, "final_logit_softcapping": 30.0,
                    "global_head_dim": 512, "head_dim": 256, "hidden_size": 5376,
                    "hidden_size_per_layer_input": 0, "intermediate_size": 21504,
                    "max_position_embeddings": 262144, "model_type": "gemma4_text",
                    "num_attention_heads": 32, "num_global_key_value_heads": 4,
                    "num_hidden_layers": 60, "num_key_value_heads": 16, "sliding_window": 1024,
                    "use_bidirectional_attention": "vision",
                    "rope_parameters": {
                      "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0,
                                         "rope_type": "proportional"},
                      "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}},
    "dtype": "bfloat16", "vision_config": {"model_type": "gemma4_vision"}})");
}

// Six layers whose third and sixth have no window, with `changes` merged over the keys.
json Text(const json& changes = json::object()) {
  json config = json::parse(R"({
    "architectures": ["Gemma4ForCausalLM"], "model_type": "gemma4_text", "num_hidden_layers": 6,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention",
                    "sliding_attention", "sliding_attention", "full_attention"]})");
  config.merge_patch(changes);
  return config;
}

template <typename T>
std::vector<T> OfLayers(const ModelConfig& config, T GqaConfig::*field) {
  std::vector<T> values;
  values.reserve(config.layers.size());
  for (const LayerConfig& layer : config.layers) values.push_back(layer.gqa.*field);
  return values;
}

TEST(Gemma4Config, PublishedFile) {
  const ModelConfig c = Parse(Gemma431B());
  EXPECT_EQ(c.architecture, "Gemma4ForConditionalGeneration");
  EXPECT_EQ(c.layers.size(), 60);
  EXPECT_THAT(c.eos_token_ids, ElementsAre(1, 106));
  EXPECT_EQ(c.norm, NormKind::kRms);
  EXPECT_EQ(c.block_order, BlockOrder::kSandwich);
  EXPECT_EQ(c.qk_norm, HeadNorm::kHead);
  EXPECT_TRUE(c.v_norm && c.layer_scalars && c.tie_word_embeddings);
  EXPECT_FALSE(c.qkv_bias || c.o_bias);
  EXPECT_EQ(c.activation, Activation::kGeluTanh);
  EXPECT_EQ(c.attention_scale, 1.0f);
  EXPECT_EQ(c.attention_soft_cap, 0.0f);
  EXPECT_EQ(c.logit_soft_cap, 30.0f);
  EXPECT_NEAR(c.embedding_scale, 73.3212f, 1e-4);  // sqrt(5376)
  EXPECT_EQ(c.per_layer_input.size, 0);
  EXPECT_EQ(MaxSequenceLength(c), 262144);
  for (size_t i = 0; i < c.layers.size(); ++i) {
    SCOPED_TRACE(i);
    const GqaConfig& gqa = c.layers[i].gqa;
    const bool is_full = i % 6 == 5;
    EXPECT_EQ(gqa.sliding_window, is_full ? 0 : 1024);
    EXPECT_EQ(gqa.num_q_heads, 32);
    EXPECT_EQ(gqa.num_kv_heads, is_full ? 4 : 16);
    EXPECT_EQ(gqa.head_dim, is_full ? 512 : 256);
    EXPECT_EQ(gqa.value_is_key, is_full);
    EXPECT_EQ(gqa.rope, is_full ? 0 : 1);
    EXPECT_EQ(c.layers[i].intermediate_size, 21504);
  }
  EXPECT_EQ(c.ropes[0].type, RopeType::kProportional);
  EXPECT_EQ(c.ropes[0].theta, 1e6);
  EXPECT_EQ(c.ropes[0].rotary_dim, 128);
  EXPECT_EQ(c.ropes[0].pair_distance, 256);
  EXPECT_EQ(c.ropes[1].type, RopeType::kDefault);
  EXPECT_EQ(c.ropes[1].theta, 1e4);
  EXPECT_EQ(c.ropes[1].rotary_dim, 256);
  EXPECT_EQ(c.ropes[1].pair_distance, 128);
}

TEST(Gemma4Config, BothSpellingsAreOne) {
  const ModelConfig published = Parse(Gemma431B());
  json config = Gemma431B();
  json& text = config["text_config"];
  text.erase("global_head_dim");
  text.erase("num_global_key_value_heads");
  for (int i = 5; i < 60; i += 6) {
    text["per_layer_config"][absl::StrCat(i)] = {{"head_dim", 512}, {"num_key_value_heads", 4}};
  }
  const ModelConfig written = Parse(config);
  EXPECT_EQ(OfLayers(written, &GqaConfig::head_dim), OfLayers(published, &GqaConfig::head_dim));
  EXPECT_EQ(OfLayers(written, &GqaConfig::num_kv_heads),
            OfLayers(published, &GqaConfig::num_kv_heads));
  EXPECT_EQ(OfLayers(written, &GqaConfig::rope), OfLayers(published, &GqaConfig::rope));
  // It counts even where it says nothing of a layer.
  text["per_layer_config"] = json::object();
  EXPECT_THAT(OfLayers(Parse(config), &GqaConfig::head_dim), Each(256));
}

TEST(Gemma4Config, DefaultsAreThoseOfTheClasses) {
  const ModelConfig c = Parse(Sparse("gemma4_text"));
  EXPECT_EQ(c.vocab_size, 262144);
  EXPECT_EQ(c.hidden_size, 2304);
  ASSERT_EQ(c.layers.size(), 30);
  EXPECT_EQ(c.max_position_embeddings, 131072);
  EXPECT_EQ(c.norm_eps, 1e-6f);
  EXPECT_EQ(c.bos_token_id, 2);
  EXPECT_THAT(c.eos_token_ids, ElementsAre(1));
  EXPECT_EQ(c.logit_soft_cap, 0.0f);
  EXPECT_EQ(c.per_layer_input.size, 256);
  EXPECT_EQ(c.per_layer_input.vocab_size, 262144);
  const GqaConfig& sliding = c.layers[0].gqa;
  EXPECT_EQ(sliding.sliding_window, 512);
  EXPECT_EQ(sliding.num_q_heads, 8);
  EXPECT_EQ(sliding.num_kv_heads, 4);
  EXPECT_EQ(sliding.head_dim, 256);
  const GqaConfig& full = c.layers[5].gqa;
  EXPECT_EQ(full.sliding_window, 0);
  EXPECT_EQ(full.head_dim, 512);
  EXPECT_EQ(full.num_kv_heads, 4);
  EXPECT_FALSE(full.value_is_key || full.kv_sharing_target);
  EXPECT_EQ(c.ropes[0].type, RopeType::kProportional);
  EXPECT_EQ(c.ropes[0].theta, 1e6);
  EXPECT_EQ(c.ropes[0].rotary_dim, 128);
  EXPECT_EQ(c.ropes[1].type, RopeType::kDefault);
  EXPECT_EQ(c.ropes[1].theta, 1e4);
  EXPECT_EQ(c.ropes[1].rotary_dim, 256);

  json unified = Sparse("gemma4_unified");
  unified["text_config"] = {{"model_type", "gemma4_unified_text"}};
  const ModelConfig u = Parse(unified);
  EXPECT_EQ(u.layers[0].gqa.sliding_window, 1024);
  EXPECT_EQ(u.max_position_embeddings, 262144);
  EXPECT_EQ(u.per_layer_input.size, 0);
  unified["text_config"]["model_type"] = "gemma4_text";
  EXPECT_THAT(Error(unified).message(), HasSubstr("model_type \"gemma4_text\""));
}

TEST(Gemma4Config, TheLastLayerHasNoWindow) {
  const ModelConfig c = Parse(Text(
      {{"num_hidden_layers", 2}, {"layer_types", {"sliding_attention", "sliding_attention"}}}));
  EXPECT_THAT(OfLayers(c, &GqaConfig::sliding_window), ElementsAre(512, 0));
  EXPECT_THAT(OfLayers(c, &GqaConfig::head_dim), ElementsAre(256, 512));
}

TEST(Gemma4Config, OnlyValuesThatAreKeysHaveHeadsOfTheirOwn) {
  json config = Text({{"num_global_key_value_heads", 1}});
  EXPECT_THAT(OfLayers(Parse(config), &GqaConfig::num_kv_heads), Each(4));
  EXPECT_THAT(OfLayers(Parse(config), &GqaConfig::value_is_key), Each(false));
  config["attention_k_eq_v"] = true;
  EXPECT_THAT(OfLayers(Parse(config), &GqaConfig::num_kv_heads), ElementsAre(4, 4, 1, 4, 4, 1));
  EXPECT_THAT(OfLayers(Parse(config), &GqaConfig::value_is_key),
              ElementsAre(false, false, true, false, false, true));
}

TEST(Gemma4Config, TheLastLayersReadTheCacheOfTheLastOneOfTheirKind) {
  json config = Text({{"num_kv_shared_layers", 3}, {"intermediate_size", 100}});
  const std::optional<int32_t> none;
  EXPECT_THAT(OfLayers(Parse(config), &GqaConfig::kv_sharing_target),
              ElementsAre(none, none, none, 1, 1, 2));
  EXPECT_EQ(Parse(config).layers[5].intermediate_size, 100);
  config["use_double_wide_mlp"] = true;
  const ModelConfig c = Parse(config);
  EXPECT_EQ(c.layers[2].intermediate_size, 100);
  EXPECT_EQ(c.layers[3].intermediate_size, 200);
  config["num_kv_shared_layers"] = 0;
  EXPECT_EQ(Parse(config).layers[5].intermediate_size, 100);
}

TEST(Gemma4Config, InputsOfLayersMayBeOff) {
  EXPECT_EQ(Parse(Text({{"hidden_size_per_layer_input", 24}})).per_layer_input.size, 24);
  EXPECT_EQ(Parse(Text({{"hidden_size_per_layer_input", 0}})).per_layer_input.size, 0);
  json config = Text();
  config["hidden_size_per_layer_input"] = nullptr;
  EXPECT_EQ(Parse(config).per_layer_input.size, 0);
}

// As published files of the 26B have them: beside the MLP of every layer.
TEST(Gemma4Config, ExpertsStandBesideTheMlp) {
  const ModelConfig config = Parse(Text({{"enable_moe_block", true},
                                         {"num_experts", 128},
                                         {"top_k_experts", 8},
                                         {"moe_intermediate_size", 704}}));
  for (const LayerConfig& layer : config.layers) {
    EXPECT_EQ(layer.mlp, MlpKind::kGatedAndRouted);
    EXPECT_GT(layer.intermediate_size, 0);
    EXPECT_EQ(layer.routed.router,
              (RouterRule{.num_experts = 128, .top_k = 8, .renormalise = true}));
    EXPECT_TRUE(layer.routed.expert_scales);
    EXPECT_EQ(layer.routed.intermediate_size, 704);
  }
  EXPECT_EQ(Parse(Text()).layers[0].mlp, MlpKind::kGated);
}

TEST(Gemma4Config, ErrorsNameTheKey) {
  struct Case {
    json changes;
    const char* message;
  };
  const Case invalid[] = {
      {{{"num_kv_shared_layers", 6}}, "num_kv_shared_layers is 6"},
      {{{"num_kv_shared_layers", 4}}, "layer 2 has no earlier layer of its type to read from"},
      {{{"num_kv_shared_layers", 1}, {"per_layer_config", {{"2", {{"head_dim", 64}}}}}},
       "layer 5 reads the keys and values of layer 2, which has other heads"},
      {{{"vocab_size_per_layer_input", 262143}},
       "vocab_size_per_layer_input (262143) must be at least vocab_size (262144)"},
      {{{"global_head_dim", 33}}, "the head size of layer 2 (33) must be even"},
      {{{"attention_k_eq_v", true}, {"num_global_key_value_heads", 3}},
       "num_attention_heads (8) must be a multiple of the 3 KV heads of layer 2"},
      {{{"per_layer_config", {{"6", {{"head_dim", 64}}}}}},
       "per_layer_config: \"6\" is no layer; num_hidden_layers is 6"},
      {{{"per_layer_config", {{"full_attention", json::object()}}}},
       "\"full_attention\" is no layer"},
      {{{"per_layer_config", {{"2", 512}}}}, "per_layer_config: 2 must be an object"},
      {{{"per_layer_config", {{"2", {{"head_dim", 0}}}}}}, "per_layer_config: 2: head_dim is 0"},
      {{{"use_bidirectional_attention", "both"}}, "use_bidirectional_attention"},
      {{{"enable_moe_block", true}, {"num_experts", 1}}, "num_experts is 1; it must be between 2"},
      {{{"enable_moe_block", true}}, "num_experts is missing, which enable_moe_block asks for"},
      {{{"enable_moe_block", true},
        {"num_experts", 4},
        {"top_k_experts", 5},
        {"moe_intermediate_size", 64}},
       "top_k_experts (5) must be at most num_experts (4)"},
  };
  for (const Case& c : invalid) {
    const absl::Status status = Error(Text(c.changes));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.message << ": " << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("config.json: "), HasSubstr(c.message)));
  }
  const Case unsupported[] = {
      {{{"use_bidirectional_attention", "all"}}, "attention in both directions"},
      {{{"per_layer_config", {{"2", {{"sliding_window", 5}}}}}},
       "per_layer_config: 2: \"sliding_window\" is not supported"},
  };
  for (const Case& c : unsupported) {
    const absl::Status status = Error(Text(c.changes));
    EXPECT_TRUE(absl::IsUnimplemented(status)) << c.message << ": " << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("config.json: "), HasSubstr(c.message)));
  }
}

}  // namespace
}  // namespace quire
