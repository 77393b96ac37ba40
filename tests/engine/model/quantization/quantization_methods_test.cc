// fp8, mxfp4, ModelOpt, GPTQ, AWQ and AutoRound.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/engine/model/quantization/parse_quantization.h"
#include "tests/engine/model/quantization/test_planes.h"

namespace quire {
namespace {

using nlohmann::json;
using testing::HasSubstr;

WeightScheme FindIn(const json& quantization, absl::string_view module = kQ) {
  return Find(Parse(quantization), module);
}

void ExpectError(const absl::Status& status, absl::StatusCode code,
                 const std::vector<std::string>& parts) {
  EXPECT_EQ(status.code(), code) << status;
  for (const std::string& part : parts) {
    EXPECT_THAT(std::string(status.message()), HasSubstr(part));
  }
}

void ExpectUnimplemented(const json& quantization, const std::vector<std::string>& parts) {
  ExpectError(TryParse(quantization).status(), absl::StatusCode::kUnimplemented, parts);
}

void ExpectInvalid(const json& quantization, const std::vector<std::string>& parts) {
  ExpectError(TryParse(quantization).status(), absl::StatusCode::kInvalidArgument, parts);
}

json Merged(json base, const json& changes) {
  base.merge_patch(changes);
  return base;
}

json Fp8(const json& changes = json::object()) {
  return Merged(json::parse(R"({"quant_method": "fp8", "fmt": "e4m3",
      "activation_scheme": "dynamic", "weight_block_size": [128, 128]})"),
                changes);
}

TEST(Fp8Config, Blocks) {
  WeightScheme scheme = FormatRow("fp8-block");
  scheme.activations = ActivationScheme::kE4M3PerGroup;
  EXPECT_EQ(FindIn(Fp8()), scheme);
  // DeepSeek-V3.1: scales of weights are float32 all the same.
  scheme.activation_scale_is_power_of_two = true;
  EXPECT_EQ(FindIn(Fp8({{"scale_fmt", "ue8m0"}})), scheme);
  EXPECT_EQ(FindIn(Fp8({{"weight_block_size", {64, 32}}})).group_columns, 32);
  EXPECT_FALSE(FindIn(Fp8(), "lm_head").quantized());
}

TEST(Fp8Config, OneScaleAWeight) {
  WeightScheme scheme = FormatRow("fp8-tensor");
  scheme.activations = ActivationScheme::kE4M3PerToken;
  const json none = {{"weight_block_size", nullptr}};
  EXPECT_EQ(FindIn(Fp8(none)), scheme);
  scheme.activations = ActivationScheme::kE4M3PerTensor;
  EXPECT_EQ(FindIn(Fp8(Merged(none, {{"activation_scheme", "static"}}))), scheme);
}

// Either key; names up to a border of modules.
TEST(Fp8Config, SkipListsHaveTwoNames) {
  const json list = {"lm_head", "model.layers.0.linear_attn.in_proj_a", "model.layers.0.mlp.gate",
                     "model.visual"};
  for (const char* key : {"modules_to_not_convert", "ignored_layers"}) {
    const QuantizationConfig config = Parse(Fp8({{key, list}}));
    EXPECT_FALSE(Find(config, "model.layers.0.linear_attn.in_proj_a").quantized());
    EXPECT_FALSE(Find(config, "model.layers.0.mlp.gate").quantized());
    EXPECT_FALSE(Find(config, "model.visual.blocks.0.mlp").quantized());
    EXPECT_TRUE(Find(config, "model.layers.0.mlp.gate_proj").quantized());
    EXPECT_TRUE(Find(config, "model.layers.0.linear_attn.in_proj_qkv").quantized());
  }
  const QuantizationConfig both =
      Parse(Fp8({{"modules_to_not_convert", {"a.b"}}, {"ignored_layers", {"a.c"}}}));
  EXPECT_FALSE(Find(both, "a.b").quantized() || Find(both, "a.c").quantized());
}

// q and k of a hybrid's fused projection in float8, and b not: no single weight.
TEST(Fp8Config, FusedModulesMustAgree) {
  const QuantizationConfig config =
      Parse(Fp8({{"modules_to_not_convert", {"m.in_proj_b", "m.in_proj_a"}}}));
  EXPECT_TRUE(config.FindShared({"m.in_proj_qkv", "m.in_proj_z"})->quantized());
  EXPECT_FALSE(config.FindShared({"m.in_proj_b", "m.in_proj_a"})->quantized());
  ExpectError(config.FindShared({"m.in_proj_qkv", "m.in_proj_z", "m.in_proj_b"}).status(),
              absl::StatusCode::kInvalidArgument,
              {"m.in_proj_qkv is float8", "m.in_proj_b is not"});
}

TEST(Fp8Config, OthersAreRefused) {
  ExpectUnimplemented(Fp8({{"fmt", "e5m2"}}), {"fmt", "e5m2", "e4m3"});
  ExpectUnimplemented(Fp8({{"activation_scheme", "static"}}), {"activation_scheme static"});
  ExpectUnimplemented(Fp8({{"activation_scheme", "none"}}), {"activation_scheme", "none"});
  ExpectUnimplemented(Fp8({{"expert_dtype", "fp4"}}), {"expert_dtype", "fp4"});
  ExpectUnimplemented(Fp8({{"modules_to_convert", {"embed_tokens"}}}), {"modules_to_convert"});
  ExpectInvalid(Fp8({{"weight_block_size", {128}}}), {"weight_block_size"});
  ExpectInvalid(Fp8({{"weight_block_size", {0, 128}}}), {"weight_block_size"});
  ExpectInvalid(Fp8({{"ignored_layers", {"a", 1}}}), {"ignored_layers must be a list of strings"});
}

TEST(Fp8Config, KvCacheOfAutoFp8) {
  EXPECT_TRUE(Parse(Fp8({{"kv_cache_scheme", "static"}})).kv_cache().is_float8);
  EXPECT_FALSE(Parse(Fp8({{"kv_cache_scheme", nullptr}})).kv_cache().is_float8);
}

TEST(Mxfp4Config, IsOfTheExpertsAlone) {
  const QuantizationConfig config =
      Parse({{"quant_method", "mxfp4"},
             {"modules_to_not_convert",
              {"model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
               "lm_head"}}});
  EXPECT_EQ(Find(config, "model.layers.7.mlp.experts.gate_up_proj"), FormatRow("gpt-oss-mxfp4"));
  EXPECT_FALSE(Find(config, "model.layers.7.self_attn.q_proj").quantized());
  EXPECT_FALSE(Find(config, "model.layers.7.mlp.router").quantized());
  EXPECT_FALSE(Find(config, "lm_head").quantized());
}

QuantizationConfig ModelOptFile(const json& quantization) {
  const json file = {{"producer", {{"name", "modelopt"}}}, {"quantization", quantization}};
  return Checked(QuantizationConfig::Parse({.config = "{}", .hf_quant_config = file.dump()}));
}

TEST(ModelOptConfig, FilesAndKeys) {
  const json quantization = {{"quant_algo", "FP8"},
                             {"kv_cache_quant_algo", "FP8"},
                             {"exclude_modules", {"lm_head", "model.layers.0*"}}};
  WeightScheme fp8 = FormatRow("fp8-tensor");
  fp8.activations = ActivationScheme::kE4M3PerTensor;
  const json inside = json::parse(R"({"quant_method": "modelopt", "quant_algo": "FP8",
      "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
      "ignore": ["lm_head", "model.layers.0*"],
      "kv_cache_scheme": {"dynamic": false, "num_bits": 8, "type": "float"}})");
  for (const QuantizationConfig& config : {ModelOptFile(quantization), Parse(inside)}) {
    EXPECT_EQ(config.method(), "modelopt");
    EXPECT_EQ(Find(config, "model.layers.1.mlp.up_proj"), fp8);
    EXPECT_FALSE(Find(config, "model.layers.0.mlp.up_proj").quantized());
    EXPECT_FALSE(Find(config, "lm_head").quantized());
    EXPECT_TRUE(config.kv_cache().is_float8);
  }
  // config.json with no more than the name of it: the other file has the rest.
  const std::string bare = R"({"quantization_config": {"quant_method": "modelopt"}})";
  const json file = {{"quantization", quantization}};
  EXPECT_EQ(
      Find(Checked(QuantizationConfig::Parse({.config = bare, .hf_quant_config = file.dump()})),
           "a.b"),
      fp8);
  ExpectInvalid({{"quant_method", "modelopt"}}, {"quant_algo is missing"});
}

TEST(ModelOptConfig, Algorithms) {
  const auto find = [](const char* name) { return Find(ModelOptFile({{"quant_algo", name}})); };
  EXPECT_EQ(find("FP8_PER_CHANNEL_PER_TOKEN").activations, ActivationScheme::kE4M3PerToken);
  EXPECT_EQ(find("FP8_PER_CHANNEL_PER_TOKEN").group_rows, 1);
  EXPECT_EQ(find("FP8_PB_WO").activations, ActivationScheme::kNone);
  EXPECT_EQ(find("FP8_PB_WO").group_rows, 128);
  EXPECT_EQ(find("NVFP4"), FormatRow("modelopt-nvfp4"));
  EXPECT_EQ(find("W4A16_NVFP4"), FormatRow("modelopt-nvfp4"));
  EXPECT_EQ(find("MXFP8"), FormatRow("mxfp8-quantized"));
  EXPECT_FALSE(Find(ModelOptFile({{"quant_algo", nullptr}})).quantized());
  for (const char* name : {"NVFP4_AWQ", "NVFP4_SVD", "W4A8_AWQ", "W8A8_SQ_PER_CHANNEL"}) {
    ExpectUnimplemented({{"quant_method", "modelopt"}, {"quant_algo", name}},
                        {"quant_algo", name, "supported are FP8"});
  }
  ExpectUnimplemented({{"quant_method", "modelopt"}, {"quant_algo", "NVFP4"}, {"group_size", 32}},
                      {"group_size 32", "16"});
}

TEST(ModelOptConfig, MixedPrecisionIsByLayer) {
  const QuantizationConfig config = ModelOptFile(json::parse(R"({"quant_algo": "MIXED_PRECISION",
      "kv_cache_quant_algo": "NVFP4", "quantized_layers": {
        "model.layers.0.mlp.up_proj": {"quant_algo": "NVFP4", "group_size": 16},
        "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"}}})"));
  EXPECT_EQ(Find(config, "model.layers.0.mlp.up_proj"), FormatRow("modelopt-nvfp4"));
  EXPECT_EQ(Find(config, kQ).packing, WeightPacking::kFloat8);
  EXPECT_FALSE(Find(config, "model.layers.0.self_attn.k_proj").quantized());
  EXPECT_EQ(config.kv_cache(), (KvCacheScheme{.not_served = "NVFP4",
                                              .key = "hf_quant_config.json: kv_cache_quant_algo"}));
  ExpectInvalid({{"quant_method", "modelopt"}, {"quant_algo", "MIXED_PRECISION"}},
                {"quantized_layers"});
}

json Gptq(const json& changes = json::object()) {
  return Merged(json::parse(R"({"quant_method": "gptq", "bits": 4, "group_size": 128,
      "sym": true, "desc_act": false, "damp_percent": 0.01, "static_groups": false,
      "true_sequential": true, "lm_head": false})"),
                changes);
}

TEST(GptqConfig, Reads) {
  WeightScheme scheme = FormatRow("gptq");
  scheme.zero_points = false;
  EXPECT_EQ(FindIn(Gptq()), scheme);
  scheme.zero_points = true;
  scheme.ordered = true;
  scheme.bits = 8;
  scheme.group_columns = 0;
  EXPECT_EQ(FindIn(Gptq({{"bits", 8}, {"sym", false}, {"desc_act", true}, {"group_size", -1}})),
            scheme);
}

TEST(GptqConfig, TheFirstVersionStoresZeroPointsLessOne) {
  EXPECT_EQ(FindIn(Gptq()).zero_offset, 1);
  EXPECT_EQ(FindIn(Gptq({{"checkpoint_format", "gptq"}})).zero_offset, 1);
  EXPECT_EQ(FindIn(Gptq({{"checkpoint_format", "gptq_v2"}})).zero_offset, 0);
  EXPECT_EQ(FindIn(Gptq({{"format", "gptq_v2"}})).zero_offset, 0);
}

TEST(GptqConfig, TheHeadMayBeQuantized) {
  EXPECT_FALSE(FindIn(Gptq(), "lm_head").quantized());
  EXPECT_TRUE(FindIn(Gptq({{"lm_head", true}}), "lm_head").quantized());
}

TEST(GptqConfig, OldFileAndKeys) {
  const std::string text = R"({"w_bit": 8, "q_group_size": 64, "desc_act": false, "sym": false})";
  const WeightScheme scheme =
      Find(Checked(QuantizationConfig::Parse({.config = "{}", .quantize_config = text})));
  EXPECT_EQ(scheme.packing, WeightPacking::kGptq);
  EXPECT_EQ(scheme.bits, 8);
  EXPECT_EQ(scheme.group_columns, 64);
  const absl::Status status =
      QuantizationConfig::Parse({.quantize_config = R"({"bits": 3})"}).status();
  ExpectError(status, absl::StatusCode::kUnimplemented, {"quantize_config.json: bits is 3"});
}

// The first pattern of the file that matches counts, from the start of a name.
TEST(GptqConfig, DynamicOverridesSingleModules) {
  const std::string text = R"({"quantization_config": {"quant_method": "gptq", "bits": 4,
      "group_size": 128, "sym": true, "dynamic": {
        "+:.*\\.layers\\.1\\..*down.*": {"bits": 8, "group_size": 64},
        "-:.*down.*": {},
        ".*\\.layers\\.2\\..*": {"desc_act": true},
        "+:.*": {}}}})";
  const QuantizationConfig config = Checked(QuantizationConfig::Parse({.config = text}));
  EXPECT_EQ(Find(config, "model.layers.1.mlp.down_proj").bits, 8);
  EXPECT_EQ(Find(config, "model.layers.1.mlp.down_proj").group_columns, 64);
  EXPECT_FALSE(Find(config, "model.layers.2.mlp.down_proj").quantized());
  EXPECT_TRUE(Find(config, "model.layers.2.mlp.up_proj").ordered);
  EXPECT_EQ(Find(config, "model.layers.3.mlp.up_proj").bits, 4);
  ExpectUnimplemented(Gptq({{"dynamic", {{"+:a", {{"bits", 2}}}}}}), {"dynamic", "bits is 2"});
  ExpectInvalid(Gptq({{"dynamic", {{"+:(", json::object()}}}}), {"dynamic", "("});
}

TEST(GptqConfig, ModulesInBlocks) {
  const QuantizationConfig config =
      Parse(Gptq({{"modules_in_block_to_quantize",
                   {{"self_attn.q_proj", "self_attn.k_proj"}, {"mlp.up_proj"}}}}));
  EXPECT_TRUE(Find(config, kQ).quantized());
  EXPECT_TRUE(Find(config, "model.layers.0.mlp.up_proj").quantized());
  EXPECT_FALSE(Find(config, "model.layers.0.self_attn.o_proj").quantized());
}

TEST(GptqConfig, OthersAreRefused) {
  for (const int bits : {2, 3, 5, 6, 7}) {
    ExpectUnimplemented(Gptq({{"bits", bits}}), {"bits is " + std::to_string(bits), "4 and 8"});
  }
  for (const char* format : {"marlin", "gptq_p", "bitblas"}) {
    ExpectUnimplemented(Gptq({{"checkpoint_format", format}}), {format, "gptq_v2"});
  }
  ExpectUnimplemented(Gptq({{"pack_dtype", "int16"}}), {"pack_dtype", "int16", "int32"});
  ExpectUnimplemented(Gptq({{"is_marlin_format", true}}), {"is_marlin_format"});
  ExpectInvalid(Gptq({{"group_size", 0}}), {"group_size is 0"});
  ExpectInvalid({{"quant_method", "gptq"}}, {"bits is missing"});
}

json Awq(const json& changes = json::object()) {
  return Merged(json::parse(R"({"quant_method": "awq", "bits": 4, "group_size": 128,
      "zero_point": true, "version": "gemm", "backend": "autoawq"})"),
                changes);
}

TEST(AwqConfig, Reads) {
  EXPECT_EQ(FindIn(Awq()), FormatRow("awq"));
  EXPECT_EQ(FindIn(Awq({{"version", "GEMM"}})), FormatRow("awq"));
  EXPECT_FALSE(FindIn(Awq({{"zero_point", false}})).zero_points);
  EXPECT_EQ(FindIn(Awq({{"group_size", 64}})).group_columns, 64);
  EXPECT_FALSE(FindIn(Awq(), "lm_head").quantized());
  const std::string old =
      R"({"zero_point": true, "q_group_size": 32, "w_bit": 4, "version": "GEMM"})";
  EXPECT_EQ(Find(Checked(QuantizationConfig::Parse({.quant_config = old}))).group_columns, 32);
}

TEST(AwqConfig, SkipListsAreParts) {
  const QuantizationConfig config =
      Parse(Awq({{"modules_to_not_convert", {"visual", "mlp.gate"}}}));
  EXPECT_FALSE(Find(config, "model.visual.blocks.0.attn.qkv").quantized());
  EXPECT_FALSE(Find(config, "model.layers.0.mlp.gate").quantized());
  EXPECT_FALSE(Find(config, "model.layers.0.mlp.gate_proj").quantized());  // as AutoAWQ reads it
  EXPECT_TRUE(Find(config, kQ).quantized());
}

TEST(AwqConfig, OthersAreRefused) {
  ExpectUnimplemented(Awq({{"version", "gemv"}}), {"version", "gemv", "gemm"});
  ExpectUnimplemented(Awq({{"backend", "llm-awq"}}), {"llm-awq", "gemm"});
  ExpectUnimplemented(Awq({{"bits", 8}}), {"bits is 8", "4"});
}

json AutoRound(const json& changes = json::object()) {
  return Merged(json::parse(R"({"quant_method": "auto-round", "bits": 4, "group_size": 128,
      "sym": true, "data_type": "int", "packing_format": "auto_round:auto_gptq",
      "block_name_to_quantize": "model.layers"})"),
                changes);
}

TEST(AutoRoundConfig, IsInThePackingOfEither) {
  EXPECT_EQ(FindIn(AutoRound()).packing, WeightPacking::kGptq);
  EXPECT_EQ(FindIn(AutoRound()).zero_offset, 1);
  EXPECT_EQ(FindIn(AutoRound({{"packing_format", "auto_round"}})).zero_offset, 0);
  EXPECT_EQ(FindIn(AutoRound({{"packing_format", "auto_round:gptqmodel"}})).zero_offset, 0);
  const WeightScheme awq = FindIn(AutoRound({{"packing_format", "auto_round:auto_awq"}}));
  EXPECT_EQ(awq.packing, WeightPacking::kAwq);
  EXPECT_FALSE(awq.zero_points);
  ExpectUnimplemented(AutoRound({{"packing_format", "auto_round:fp8_static"}}),
                      {"packing_format", "auto_round:auto_awq"});
  ExpectUnimplemented(AutoRound({{"data_type", "mx_fp"}}), {"data_type", "mx_fp"});
  ExpectUnimplemented(AutoRound({{"bits", 3}}), {"bits is 3"});
}

TEST(AutoRoundConfig, SingleModulesMayDiffer) {
  const QuantizationConfig config =
      Parse(AutoRound({{"extra_config",
                        {{"model.layers.0.mlp.gate", {{"bits", 16}}},
                         {"lm_head", {{"bits", 8}}},
                         {"model\\.layers\\.1\\..*", {{"group_size", 32}}}}}}));
  EXPECT_FALSE(Find(config, "model.layers.0.mlp.gate").quantized());
  EXPECT_EQ(Find(config, "lm_head").bits, 8);
  EXPECT_EQ(Find(config, "model.layers.1.mlp.up_proj").group_columns, 32);
  EXPECT_EQ(Find(config, "model.layers.2.mlp.up_proj").group_columns, 128);
  EXPECT_FALSE(Find(config, "model.visual.blocks.0").quantized());
  EXPECT_FALSE(FindIn(AutoRound(), "lm_head").quantized());
  EXPECT_FALSE(FindIn(AutoRound({{"block_name_to_quantize", nullptr}}), "lm_head").quantized());
  EXPECT_TRUE(FindIn(AutoRound({{"block_name_to_quantize", nullptr}}), "a.b").quantized());
}

}  // namespace
}  // namespace quire
