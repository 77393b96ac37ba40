// Quantized checkpoints as they come: tiny ones with random codes, loaded, and compared with the
// same model in float32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/model/weights.h"
#include "tests/engine/checkpoint/test_files.h"
#include "tests/engine/model/sequence_runner.h"
#include "tests/engine/model/tiny_weights.h"

namespace quire {
namespace {

constexpr char kModel[] = R"("model_type": "llama", "vocab_size": 96, "hidden_size": 64,
    "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "tie_word_embeddings": false)";
constexpr char kGptq[] = R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": true,
    "desc_act": false})";
constexpr char kOrderedGptq[] = R"({"quant_method": "gptq", "bits": 4, "group_size": 32,
    "sym": true, "desc_act": true})";

std::string ConfigOf(absl::string_view quantization, absl::string_view more = "") {
  return absl::StrCat("{", kModel, more, ", \"quantization_config\": ", quantization, "}");
}

class QuantizedWeightsTest : public testing::Test {
 protected:
  void UseConfig(const std::string& json, const GroupsOf& groups_of = nullptr) {
    folder_.Write("config.json", json);
    const auto config = LoadModelConfig(folder_.path());
    ASSERT_TRUE(config.ok()) << config.status();
    tensors_ = QuantizedTensorsOf(*config, groups_of);
  }

  absl::StatusOr<std::unique_ptr<SequenceRunner>> Open() {
    folder_.Write("model.safetensors", FileOf(tensors_.quantized));
    return SequenceRunner::Create(folder_.path(), {.max_len = 16});
  }

  // Log probabilities of the quantized checkpoint are those of the plain one.
  void CompareWithPlain(SequenceRunner& runner) {
    const TempFolder plain;
    plain.Write("config.json", absl::StrCat("{", kModel, "}"));
    plain.Write("model.safetensors", FileOf(tensors_.plain));
    auto expected = SequenceRunner::Create(plain.path(), {.max_len = 16});
    ASSERT_TRUE(expected.ok()) << expected.status();
    const std::vector<TokenId> tokens = {1, 5, 90, 17, 3, 64, 2, 33};
    const std::vector<float> a = runner.AppendPromptAndDecodes(tokens, 5);
    const std::vector<float> b = (*expected)->Append(tokens);
    ASSERT_EQ(a.size(), b.size());
    float difference = 0;
    for (size_t i = 0; i < a.size(); ++i) difference = std::max(difference, std::abs(a[i] - b[i]));
    EXPECT_LE(difference, 1e-3f);
    EXPECT_GT(*std::max_element(b.begin(), b.end()) - *std::min_element(b.begin(), b.end()), 0.1f);
  }

  const TempFolder folder_;
  QuantizedTensors tensors_;
};

// Every group has as many columns as another; columns 5 apart follow one another.
std::vector<int32_t> Scattered(const ModuleShape& shape, int64_t first) {
  std::vector<int32_t> groups(shape.columns);
  for (int64_t i = 0; i < shape.columns; ++i) {
    groups[(i * 5 + first) % shape.columns] = static_cast<int32_t>(i / 32);
  }
  return groups;
}

std::vector<int32_t> Plain(const ModuleShape& shape) {
  std::vector<int32_t> groups(shape.columns);
  for (int64_t i = 0; i < shape.columns; ++i) groups[i] = static_cast<int32_t>(i / 32);
  return groups;
}

// Whether desc_act says so or not, g_idx counts.
TEST_F(QuantizedWeightsTest, ColumnsAreOrderedAsTheirTensorsSay) {
  for (const char* config : {kGptq, kOrderedGptq}) {
    SCOPED_TRACE(config);
    UseConfig(ConfigOf(config),
              [](const std::string&, const ModuleShape& shape) { return Scattered(shape, 3); });
    const auto runner = Open();
    ASSERT_TRUE(runner.ok()) << runner.status();
    const LayerWeights& layer = (*runner)->weights().layer(1);
    EXPECT_TRUE(layer.gqa.qkv.format.ordered);
    EXPECT_TRUE(layer.gated_mlp.down.format.ordered);
    CompareWithPlain(**runner);
  }
}

TEST_F(QuantizedWeightsTest, GroupsOfUnequalSizeAreExpanded) {
  for (const char* config : {kGptq, kOrderedGptq}) {
    SCOPED_TRACE(config);
    UseConfig(ConfigOf(config), [](const std::string& module, const ModuleShape& shape) {
      std::vector<int32_t> groups = Plain(shape);
      if (absl::StrContains(module, "o_proj")) groups[33] = 0;
      return groups;
    });
    const auto runner = Open();
    ASSERT_TRUE(runner.ok()) << runner.status();
    const LayerWeights& layer = (*runner)->weights().layer(1);
    EXPECT_FALSE(layer.gqa.o.format.quantized());
    EXPECT_TRUE(layer.gqa.qkv.format.quantized());
    CompareWithPlain(**runner);
  }
}

// Codes stay codes: there is nothing to sort.
TEST_F(QuantizedWeightsTest, AnOrderThatIsPlainIsNone) {
  for (const char* group_size : {"32", "-1"}) {
    SCOPED_TRACE(group_size);
    UseConfig(ConfigOf(absl::StrCat(R"({"quant_method": "gptq", "bits": 4, "sym": true,
        "desc_act": true, "group_size": )",
                                    group_size, "}")),
              [&](const std::string&, const ModuleShape& shape) {
                return group_size[0] == '-' ? std::vector<int32_t>(shape.columns) : Plain(shape);
              });
    const auto runner = Open();
    ASSERT_TRUE(runner.ok()) << runner.status();
    for (const LayerLinear& linear : (*runner)->weights().linears()) {
      EXPECT_EQ(linear.weight->format.value, WeightValue::kInt4);
      EXPECT_FALSE(linear.weight->format.ordered);
    }
    CompareWithPlain(**runner);
  }
}

TEST_F(QuantizedWeightsTest, PartsOfSeveralOrdersAreExpanded) {
  for (const bool one_is_plain : {false, true}) {
    SCOPED_TRACE(one_is_plain);
    UseConfig(ConfigOf(kOrderedGptq), [&](const std::string& module, const ModuleShape& shape) {
      if (!absl::StrContains(module, "k_proj")) return Scattered(shape, 3);
      return one_is_plain ? Plain(shape) : Scattered(shape, 4);
    });
    const auto runner = Open();
    ASSERT_TRUE(runner.ok()) << runner.status();
    const LayerWeights& layer = (*runner)->weights().layer(0);
    EXPECT_FALSE(layer.gqa.qkv.format.quantized());
    EXPECT_TRUE(layer.gated_mlp.gate_up.format.ordered);
    CompareWithPlain(**runner);
  }
}

// By a key of GPTQ, and by a target of compressed-tensors.
TEST_F(QuantizedWeightsTest, TheHeadMayBeQuantized) {
  for (const char* config :
       {R"({"quant_method": "gptq", "bits": 8, "group_size": 32, "sym": true, "desc_act": false,
            "lm_head": true})",
        R"({"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {
            "group_0": {"targets": ["Linear", "re:.*lm_head"], "weights": {"num_bits": 4,
            "type": "int", "symmetric": false, "group_size": 32, "strategy": "group"}}}})"}) {
    SCOPED_TRACE(config);
    UseConfig(ConfigOf(config));
    const auto runner = Open();
    ASSERT_TRUE(runner.ok()) << runner.status();
    EXPECT_TRUE((*runner)->weights().lm_head().format.quantized());
    EXPECT_FALSE((*runner)->weights().embedding().format.quantized());
    CompareWithPlain(**runner);
  }
}

TEST_F(QuantizedWeightsTest, AQuantizedHeadIsNotTheEmbedding) {
  constexpr char kWithHead[] = R"({"quant_method": "gptq", "bits": 4, "group_size": 32,
      "sym": true, "desc_act": false, "lm_head": true})";
  UseConfig(ConfigOf(kWithHead));
  std::string tied = ConfigOf(kWithHead);
  tied.replace(tied.find("false"), 5, "true");
  folder_.Write("config.json", tied);
  const absl::Status status = Open().status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(testing::HasSubstr("lm_head.qweight"),
                             testing::HasSubstr("tie_word_embeddings"),
                             testing::Not(testing::HasSubstr("num_hidden_layers"))));
}

// Queries, keys and values have a scale each, for the whole of their weight: rows keep theirs.
TEST_F(QuantizedWeightsTest, ShardsOfAFusedWeightKeepTheirScales) {
  UseConfig(ConfigOf(R"({"quant_method": "fp8", "activation_scheme": "dynamic"})"));
  std::set<std::string> scales;
  for (const char* shard : {"q_proj", "k_proj", "v_proj"}) {
    const FileTensor& scale =
        Find(tensors_.quantized, absl::StrCat("model.layers.0.self_attn.", shard, ".weight_scale"));
    EXPECT_EQ(scale.data.size(), sizeof(float));
    scales.insert(scale.data);
  }
  EXPECT_EQ(scales.size(), 3u);
  const auto runner = Open();
  ASSERT_TRUE(runner.ok()) << runner.status();
  EXPECT_EQ((*runner)->weights().layer(0).gqa.qkv.format,
            (WeightFormat{.value = WeightValue::kFloat8}));
  CompareWithPlain(**runner);
}

// Tensors that some writers have and others do not, and that change nothing.
TEST_F(QuantizedWeightsTest, WhatNoGemmNeedsMayBeThereOrNot) {
  const std::string module = "model.layers.1.mlp.down_proj";
  const auto load = [&](absl::string_view quantization, const std::vector<FileTensor>& surplus) {
    SCOPED_TRACE(quantization);
    UseConfig(ConfigOf(quantization));
    for (const FileTensor& tensor : surplus) tensors_.quantized.push_back(tensor);
    const auto runner = Open();
    ASSERT_TRUE(runner.ok()) << runner.status();
    CompareWithPlain(**runner);
  };
  load(R"({"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [32, 32]})",
       {{module + ".input_scale", "F32", {}, BytesOf({0.5f})}});
  load(R"({"quant_method": "fp8", "activation_scheme": "static"})", {});
  load(R"({"quant_method": "fp8", "activation_scheme": "static"})",
       {{module + ".input_scale", "F32", {1}, BytesOf({0.5f})}});
  constexpr char kPacked[] = R"({"quant_method": "compressed-tensors", "format": "pack-quantized",
      "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4,
      "type": "int", "symmetric": true, "group_size": 32, "strategy": "group"}}}})";
  load(kPacked, {{module + ".weight_zero_point", "I32", {8, 3}, std::string(96, '\x88')}});
  load(kPacked, {{module + ".weight_zero_point", "I8", {64, 3}, std::string(192, '\0')}});
}

}  // namespace
}  // namespace quire
