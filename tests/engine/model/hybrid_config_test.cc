// Models of which some layers keep a state of each sequence: config.json of Qwen3.5 and later.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/engine/model/test_configs.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::HasSubstr;

// A whole text_config of the 27B model.
json Qwen35Text() {
  return json::parse(R"({
    "model_type": "qwen3_5_text", "vocab_size": 248320, "hidden_size": 5120,
    "intermediate_size": 17408, "num_hidden_layers": 8, "num_attention_heads": 24,
    "num_key_value_heads": 4, "head_dim": 256, "linear_num_key_heads": 16,
    "linear_num_value_heads": 48, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4, "attn_output_gate": true, "mamba_ssm_dtype": "float32",
    "layer_types": ["linear_attention", "linear_attention", "linear_attention", "full_attention",
                    "linear_attention", "linear_attention", "linear_attention", "full_attention"],
    "rope_parameters": {"rope_type": "default", "rope_theta": 10000000,
                        "partial_rotary_factor": 0.25, "mrope_interleaved": true,
                        "mrope_section": [11, 11, 10]},
    "max_position_embeddings": 262144, "rms_norm_eps": 1e-06, "dtype": "bfloat16",
    "eos_token_id": 248044, "tie_word_embeddings": false})");
}

json Wrapped(const json& text) {
  return {{"architectures", {"Qwen3_5ForConditionalGeneration"}},
          {"model_type", "qwen3_5"},
          {"text_config", text},
          {"vision_config", json::object()},
          {"tie_word_embeddings", false}};
}

json With(const json& changes) {
  json config = Qwen35Text();
  config.merge_patch(changes);
  return config;
}

std::vector<AttentionKind> KindsOf(const ModelConfig& config) {
  std::vector<AttentionKind> kinds;
  for (const LayerConfig& layer : config.layers) kinds.push_back(layer.attention);
  return kinds;
}

constexpr AttentionKind kDelta = AttentionKind::kGatedDelta, kGqa = AttentionKind::kGqa;

TEST(HybridConfig, ReadsQwen35AloneAndAsTheTextOfAWrapper) {
  for (const json& config : {Qwen35Text(), Wrapped(Qwen35Text())}) {
    const ModelConfig c = Parse(config);
    EXPECT_TRUE(HasState(c));
    EXPECT_EQ(c.norm, NormKind::kRmsPlusOne);
    EXPECT_EQ(c.qk_norm, HeadNorm::kHead);
    EXPECT_EQ(KindsOf(c),
              (std::vector{kDelta, kDelta, kDelta, kGqa, kDelta, kDelta, kDelta, kGqa}));
    const GatedDeltaShape& delta = c.layers[0].delta;
    EXPECT_EQ(delta.num_k_heads, 16);
    EXPECT_EQ(delta.num_v_heads, 48);
    EXPECT_EQ(delta.k_head_dim, 128);
    EXPECT_EQ(delta.v_head_dim, 128);
    EXPECT_EQ(delta.conv_width, 4);
    EXPECT_EQ(delta.num_channels(), 10240);
    EXPECT_TRUE(c.layers[3].gqa.output_gate);
    EXPECT_EQ(c.layers[3].gqa.head_dim, 256);
    EXPECT_EQ(c.layers[3].intermediate_size, 17408);
    EXPECT_EQ(c.layers[0].intermediate_size, 17408);
    EXPECT_EQ(c.ropes[0].theta, 1e7);
    EXPECT_EQ(c.ropes[0].partial_rotary_factor, 0.25);
    EXPECT_THAT(c.eos_token_ids, testing::ElementsAre(248044));
  }
  EXPECT_FALSE(HasState(Parse(Llama())));
}

TEST(HybridConfig, WhatIsAbsentIsTheFamilys) {
  const ModelConfig c = Parse(Sparse("qwen3_5_text"));
  EXPECT_EQ(c.layers.size(), 32);
  for (size_t i = 0; i < c.layers.size(); ++i) {
    EXPECT_EQ(c.layers[i].attention, (i + 1) % 4 == 0 ? kGqa : kDelta) << i;
  }
  EXPECT_EQ(c.layers[0].delta.num_k_heads, 16);
  EXPECT_EQ(c.layers[0].delta.num_v_heads, 32);
  EXPECT_EQ(c.layers[3].gqa.num_kv_heads, 4);
  EXPECT_EQ(c.ropes[0].partial_rotary_factor, 0.25);
  EXPECT_EQ(
      KindsOf(Parse(With(
          {{"layer_types", nullptr}, {"num_hidden_layers", 4}, {"full_attention_interval", 2}}))),
      (std::vector{kDelta, kGqa, kDelta, kGqa}));
}

TEST(HybridConfig, WhatIsNotServedIsNamed) {
  const auto expect = [](const json& changes, absl::StatusCode code, const char* message) {
    const absl::Status status = Error(With(changes));
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(status.message(), HasSubstr(message));
  };
  constexpr auto kUnsupported = absl::StatusCode::kUnimplemented;
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  expect({{"attn_output_gate", false}}, kUnsupported, "attn_output_gate false is not supported");
  expect({{"output_gate_type", "sigmoid"}}, kUnsupported, "supported is swish");
  expect({{"mamba_ssm_dtype", "float16"}}, kUnsupported, "mamba_ssm_dtype");
  expect({{"linear_value_head_dim", 20}}, kUnsupported, "must be multiples of 8");
  expect({{"linear_num_value_heads", 40}}, kInvalid, "must be a multiple of linear_num_key_heads");
  expect({{"linear_conv_kernel_dim", 5}}, kInvalid, "linear_conv_kernel_dim");
  expect({{"num_hidden_layers", 7}}, kInvalid, "layer_types has 8 entries; num_hidden_layers is 7");
  expect({{"layer_types", {"mamba", "full_attention"}}, {"num_hidden_layers", 2}}, kUnsupported,
         "layer_types: \"mamba\" is not supported");
  expect({{"layer_types", {"linear_attention"}}, {"num_hidden_layers", 1}}, kUnsupported,
         "no layer is full_attention");
  expect({{"layer_types", nullptr}, {"num_hidden_layers", 3}}, kUnsupported,
         "no layer is full_attention");
}

}  // namespace
}  // namespace quire
