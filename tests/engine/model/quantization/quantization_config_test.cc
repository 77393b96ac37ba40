// The common part of all packages' configurations, and compressed-tensors. The others:
// quantization_methods_test.cc.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/engine/checkpoint/test_files.h"
#include "tests/engine/model/quantization/parse_quantization.h"
#include "tests/engine/model/quantization/test_planes.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::HasSubstr;

void ExpectError(const json& quantization, absl::StatusCode code,
                 const std::vector<std::string>& parts) {
  const absl::Status status = TryParse(quantization).status();
  EXPECT_EQ(status.code(), code) << status;
  for (const std::string& part : parts) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

void ExpectUnimplemented(const json& quantization, const std::vector<std::string>& parts) {
  ExpectError(quantization, absl::StatusCode::kUnimplemented, parts);
}

void ExpectInvalid(const json& quantization, const std::vector<std::string>& parts) {
  ExpectError(quantization, absl::StatusCode::kInvalidArgument, parts);
}

// As llm-compressor writes it, with `changes` merged into the group.
json Compressed(const json& group, const char* format = "pack-quantized") {
  json config = json::parse(R"({"quant_method": "compressed-tensors",
      "quantization_status": "compressed", "global_compression_ratio": null,
      "kv_cache_scheme": null, "ignore": ["lm_head"]})");
  config["format"] = format;
  config["config_groups"]["group_0"] = group;
  config["config_groups"]["group_0"].update({{"targets", {"Linear"}}});
  return config;
}

json Int4(const json& changes = json::object()) {
  json group = json::parse(R"({"weights": {"num_bits": 4, "type": "int", "symmetric": true,
      "group_size": 128, "strategy": "group", "block_structure": null, "dynamic": false,
      "actorder": null, "observer": "minmax", "observer_kwargs": {}},
      "input_activations": null, "output_activations": null})");
  group["weights"].merge_patch(changes);
  return group;
}

TEST(QuantizationConfig, NothingIsNotQuantized) {
  for (const char* text : {"", "{}", R"({"quantization_config": null})",
                           R"({"quantization_config": {}})", R"({"text_config": {}})"}) {
    const auto config = QuantizationConfig::Parse({.config = text});
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_FALSE(config->quantized());
    EXPECT_FALSE(Find(*config, kQ).quantized());
    EXPECT_EQ(config->kv_cache(), KvCacheScheme());
  }
}

TEST(QuantizationConfig, LoadReadsAFolder) {
  TempFolder folder;
  EXPECT_FALSE(QuantizationConfig::Load(folder.path())->quantized());
  folder.Write("config.json", json{{"quantization_config", Compressed(Int4())}}.dump());
  EXPECT_EQ(QuantizationConfig::Load(folder.path())->method(), "compressed-tensors");
  folder.Write("config.json", "{");
  EXPECT_THAT(std::string(QuantizationConfig::Load(folder.path()).status().message()),
              HasSubstr("config.json"));
}

TEST(QuantizationConfig, OtherPlacesInConfigJson) {
  const json inner = {{"quantization_config", Compressed(Int4())}};
  for (const json& config : {json{{"compression_config", Compressed(Int4())}},
                             json{{"text_config", inner}}, json{{"llm_config", inner}}}) {
    const auto parsed = QuantizationConfig::Parse({.config = config.dump()});
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_TRUE(Find(*parsed, kQ).quantized());
  }
}

TEST(QuantizationConfig, OtherMethodsAreRefusedByNameWithWhatToUse) {
  for (const char* method : {"exl3", "bitsandbytes", "aqlm", "hqq", "quark", "torchao", "quip"}) {
    ExpectUnimplemented({{"quant_method", method}},
                        {"config.json: quantization_config", method, "supported are", "use "});
  }
  ExpectUnimplemented({{"quant_method", "new one"}}, {"new one", "supported are", "use "});
  ExpectUnimplemented({{"load_in_4bit", true}}, {"bitsandbytes"});
  ExpectInvalid({{"bits", 4}}, {"quant_method is missing"});
  ExpectInvalid({{"quant_method", 4}}, {"quant_method must be a string"});
  ExpectInvalid(json::array({1}), {"config.json", "quantization_config must be an object"});
}

TEST(QuantizationConfig, AFusedWeightWithOneShardIgnoredIsAnError) {
  json config = Compressed(Int4());
  config["ignore"] = {"lm_head", "model.layers.0.self_attn.k_proj"};
  const QuantizationConfig parsed = Parse(config);
  const auto names = [](const std::string& layer) -> std::vector<std::string> {
    const std::string prefix = "model.layers." + layer + ".self_attn.";
    return {prefix + "q_proj", prefix + "k_proj", prefix + "v_proj"};
  };
  const absl::Status status = parsed.FindShared(names("0")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  for (const char* part : {"layers.0.self_attn.q_proj is int4", "k_proj is not quantized"}) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
  EXPECT_TRUE(parsed.FindShared(names("1"))->quantized());
  EXPECT_FALSE(parsed.FindShared({})->quantized());
}

TEST(CompressedTensors, Int4InGroups) {
  const WeightScheme scheme = Find(Parse(Compressed(Int4())), kQ);
  EXPECT_EQ(scheme, FormatRow("pack-quantized"));
  WeightScheme other = scheme;
  other.bits = 3;
  other.group_columns = 32;
  other.zero_points = true;
  EXPECT_EQ(
      Find(Parse(Compressed(Int4({{"num_bits", 3}, {"group_size", 32}, {"symmetric", false}}))),
           kQ),
      other);
  EXPECT_EQ(Find(Parse(Compressed(Int4({{"strategy", "channel"}, {"group_size", -1}}))), kQ)
                .group_columns,
            0);
  // Without a strategy the group size tells it.
  EXPECT_EQ(
      Find(Parse(Compressed(Int4({{"strategy", nullptr}, {"group_size", 64}}))), kQ).group_columns,
      64);
}

// "weight" changes how a checkpoint is made, and nothing in it; "group" writes g_idx.
TEST(CompressedTensors, ActOrder) {
  for (const char* order : {"weight", "static"}) {
    EXPECT_FALSE(Find(Parse(Compressed(Int4({{"actorder", order}}))), kQ).ordered);
  }
  for (const json& order : {json("group"), json("dynamic"), json("GROUP"), json(true)}) {
    EXPECT_TRUE(Find(Parse(Compressed(Int4({{"actorder", order}}))), kQ).ordered);
  }
  ExpectUnimplemented(Compressed(Int4({{"actorder", "other"}})),
                      {"actorder", "other", "supported"});
}

json Float8Group(const json& weights, const json& activations) {
  json group = {{"weights", {{"num_bits", 8}, {"type", "float"}}}, {"input_activations", nullptr}};
  group["weights"].update(weights);
  if (!activations.is_null()) {
    group["input_activations"] = {{"num_bits", 8}, {"type", "float"}};
    group["input_activations"].update(activations);
  }
  return group;
}

TEST(CompressedTensors, Float8) {
  const auto find = [](const json& weights, const json& activations) {
    return Find(Parse(Compressed(Float8Group(weights, activations), "float-quantized")), kQ);
  };
  WeightScheme scheme = FormatRow("float-quantized");
  scheme.activations = ActivationScheme::kE4M3PerTensor;
  EXPECT_EQ(find({{"strategy", "tensor"}}, {{"strategy", "tensor"}, {"dynamic", false}}), scheme);
  scheme.group_rows = 1;
  scheme.activations = ActivationScheme::kE4M3PerToken;
  EXPECT_EQ(find({{"strategy", "channel"}}, {{"strategy", "token"}, {"dynamic", true}}), scheme);
  scheme.group_rows = 128;
  scheme.group_columns = 128;
  scheme.activations = ActivationScheme::kE4M3PerGroup;
  const json group = {{"strategy", "group"}, {"group_size", 128}, {"dynamic", true}};
  EXPECT_EQ(find({{"strategy", "block"}, {"block_structure", {128, 128}}}, group), scheme);
  EXPECT_EQ(find({{"strategy", "block"}, {"block_structure", "128x128"}}, group), scheme);
  scheme.activations = ActivationScheme::kNone;
  EXPECT_EQ(find({{"strategy", "block"}, {"block_structure", {128, 128}}}, nullptr), scheme);
}

TEST(CompressedTensors, Int8AndOthers) {
  json group = json::parse(R"({"weights": {"num_bits": 8, "type": "int", "strategy": "channel"},
      "input_activations": {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": true}})");
  WeightScheme scheme = FormatRow("int-quantized");
  scheme.activations = ActivationScheme::kInt8PerToken;
  EXPECT_EQ(Find(Parse(Compressed(group, "int-quantized")), kQ), scheme);
  EXPECT_EQ(Find(Parse(Compressed(group, "naive-quantized")), kQ), scheme);
  // Static int8 scales, and zero points of activations.
  group["input_activations"]["dynamic"] = false;
  ExpectUnimplemented(Compressed(group, "int-quantized"), {"input_activations", "int8 per token"});
  group["input_activations"] = {{"symmetric", false}, {"strategy", "token"}, {"dynamic", true}};
  ExpectUnimplemented(Compressed(group, "int-quantized"), {"input_activations", "symmetric"});
}

TEST(CompressedTensors, Float4IsOfWeightsAlone) {
  const json weights = {
      {"num_bits", 4}, {"type", "float"}, {"strategy", "tensor_group"}, {"group_size", 16}};
  json activations = weights;
  activations["dynamic"] = "local";
  const json group = {{"weights", weights}, {"input_activations", activations}};
  EXPECT_EQ(Find(Parse(Compressed(group, "nvfp4-pack-quantized")), kQ),
            FormatRow("nvfp4-pack-quantized"));
  json mx = group;
  mx["weights"]["strategy"] = "group";
  mx["weights"]["group_size"] = 32;
  EXPECT_EQ(Find(Parse(Compressed(mx, "mxfp4-pack-quantized")), kQ),
            FormatRow("mxfp4-pack-quantized"));
  ExpectUnimplemented(Compressed(mx, "nvfp4-pack-quantized"), {"groups of 16"});
}

TEST(CompressedTensors, EachGroupMayHaveAFormat) {
  json config = Compressed(Int4(), "mixed-precision");
  json& groups = config["config_groups"];
  groups["group_0"]["format"] = "pack-quantized";
  groups["group_0"]["targets"] = {"re:.*mlp\\..*"};
  groups["group_1"] =
      Float8Group({{"strategy", "channel"}}, {{"strategy", "token"}, {"dynamic", true}});
  groups["group_1"]["targets"] = {"Linear"};
  const QuantizationConfig parsed = Parse(config);
  EXPECT_EQ(Find(parsed, "model.layers.0.mlp.up_proj").packing, WeightPacking::kPackedRows);
  EXPECT_EQ(Find(parsed, kQ).packing, WeightPacking::kFloat8);
}

// Exact names before expressions before classes, whatever their order in the file.
TEST(CompressedTensors, SpecialTargetsComeFirst) {
  json config = Compressed(Int4());
  json& groups = config["config_groups"];
  groups["group_0"]["targets"] = {"re:.*q_proj"};
  groups["group_1"] = Int4({{"num_bits", 8}});
  groups["group_1"]["targets"] = {"Linear"};
  groups["group_2"] = Int4({{"num_bits", 6}});
  groups["group_2"]["targets"] = {kQ};
  const QuantizationConfig parsed = Parse(config);
  EXPECT_EQ(Find(parsed, kQ).bits, 6);
  EXPECT_EQ(Find(parsed, "model.layers.1.self_attn.q_proj").bits, 4);
  EXPECT_EQ(Find(parsed, "model.layers.1.self_attn.k_proj").bits, 8);
  groups["group_3"] = Int4();
  groups["group_3"]["targets"] = {kQ};
  ExpectInvalid(config, {"group_3", kQ, "group_2"});
}

TEST(CompressedTensors, IgnoredModules) {
  json config = Compressed(Int4());
  config["ignore"] = {"lm_head", kQ, "re:.*\\.gate$", "re:visual"};
  const QuantizationConfig parsed = Parse(config);
  for (const char* module : {"lm_head", kQ, "model.layers.3.mlp.gate", "visual.blocks.0"}) {
    EXPECT_FALSE(Find(parsed, module).quantized()) << module;
  }
  // Names are those of the checkpoint: with another beginning this is another module.
  for (const char* module : {"model.language_model.layers.0.self_attn.q_proj",
                             "model.layers.3.mlp.gate_proj", "model.visual.blocks.0"}) {
    EXPECT_TRUE(Find(parsed, module).quantized()) << module;
  }
}

TEST(CompressedTensors, AHeadThatIsNotIgnoredIsALinearModule) {
  json config = Compressed(Int4());
  EXPECT_FALSE(Find(Parse(config), "lm_head").quantized());
  config["ignore"] = json::array();
  EXPECT_TRUE(Find(Parse(config), "lm_head").quantized());
}

TEST(CompressedTensors, OtherClassesOfModulesAreNotLinear) {
  json config = Compressed(Int4());
  config["config_groups"]["group_0"]["targets"] = {"LlamaAttention", "Embedding"};
  EXPECT_FALSE(Find(Parse(config), kQ).quantized());
}

TEST(CompressedTensors, GroupsMayBeNamesOfPresets) {
  const auto find = [](const char* preset) {
    json config = Compressed(Int4(), "mixed-precision");
    config["config_groups"] = {{preset, {"Linear"}}};
    return Find(Parse(config), kQ);
  };
  EXPECT_EQ(find("W4A16"), FormatRow("pack-quantized"));
  EXPECT_EQ(find("w4a16"), FormatRow("pack-quantized"));
  EXPECT_EQ(find("W6A16").bits, 6);
  EXPECT_TRUE(find("W4A16_ASYM").zero_points);
  EXPECT_EQ(find("W8A8").activations, ActivationScheme::kInt8PerToken);
  EXPECT_EQ(find("W8A8").group_columns, 0);
  EXPECT_EQ(find("FP8").activations, ActivationScheme::kE4M3PerTensor);
  EXPECT_EQ(find("FP8_DYNAMIC").activations, ActivationScheme::kE4M3PerToken);
  EXPECT_EQ(find("FP8_BLOCK").group_rows, 128);
  EXPECT_EQ(find("NVFP4"), FormatRow("nvfp4-pack-quantized"));
  EXPECT_EQ(find("MXFP4A16"), FormatRow("mxfp4-pack-quantized"));
  EXPECT_EQ(find("MXFP8"), FormatRow("mxfp8-quantized"));
  EXPECT_FALSE(find("UNQUANTIZED").quantized());
  json config = Compressed(Int4());
  config["config_groups"] = {{"W9X", {"Linear"}}};
  ExpectUnimplemented(config, {"preset", "W9X"});
}

TEST(CompressedTensors, KvCache) {
  json config = Compressed(Int4());
  config["kv_cache_scheme"] = {{"num_bits", 8},
                               {"type", "float"},
                               {"strategy", "tensor"},
                               {"dynamic", false},
                               {"symmetric", true}};
  const std::string key = "config.json: quantization_config: kv_cache_scheme";
  EXPECT_EQ(Parse(config).kv_cache(), (KvCacheScheme{.is_float8 = true, .key = key}));
  config["kv_cache_scheme"]["strategy"] = "attn_head";
  EXPECT_EQ(Parse(config).kv_cache(), (KvCacheScheme{.is_float8 = true, .key = key}));
  config["kv_cache_scheme"]["type"] = "int";
  EXPECT_EQ(Parse(config).kv_cache(), (KvCacheScheme{.not_served = "int8", .key = key}));
  config["kv_cache_scheme"]["symmetric"] = false;
  EXPECT_EQ(Parse(config).kv_cache().not_served, "int8 with zero points");
}

TEST(CompressedTensors, WhatIsNotSupportedIsNamed) {
  ExpectUnimplemented(Compressed(Int4(), "marlin-24"), {"group_0", "marlin-24", "pack-quantized"});
  ExpectUnimplemented(Compressed(Int4({{"num_bits", 9}})), {"9 bits"});
  ExpectUnimplemented(Compressed(Int4({{"type", "bool"}})), {"type", "bool"});
  ExpectUnimplemented(Compressed(Int4({{"dynamic", true}})), {"dynamic"});
  ExpectUnimplemented(Compressed(Int4({{"strategy", "token"}})), {"strategy", "token"});
  ExpectInvalid(Compressed(Int4({{"group_size", nullptr}})), {"weights", "group_size"});
  ExpectInvalid(Compressed(Int4({{"group_size", -2}})), {"group_size is -2"});
  ExpectInvalid(Compressed(Int4({{"strategy", "block"}})), {"block_structure"});
  json config = Compressed(Int4());
  config["sparsity_config"] = {{"format", "sparse-24-bitmask"}};
  ExpectUnimplemented(config, {"sparse-24-bitmask"});
  config = Compressed(Int4());
  config["transform_config"] = {{"config_groups", {{"R1", json::object({{"type", "hadamard"}})}}}};
  ExpectUnimplemented(config, {"transform_config"});
  config = Compressed(Int4());
  config["config_groups"]["group_0"]["output_activations"] = {{"num_bits", 8}};
  ExpectUnimplemented(config, {"output_activations"});
  config = Compressed(Int4());
  config["ignore"] = {"re:("};
  ExpectInvalid(config, {"config.json: quantization_config: ignore", "re"});
}

TEST(CompressedTensors, WeightsThatStayAsTheyAre) {
  EXPECT_FALSE(Find(Parse(Compressed(Int4(), "dense")), kQ).quantized());
  EXPECT_FALSE(Find(Parse(Compressed({{"weights", nullptr}})), kQ).quantized());
}

}  // namespace
}  // namespace quire
