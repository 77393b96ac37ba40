// compressed-tensors: groups of targets, each with the arguments of its weights and activations.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/json/parse_json.h"
#include "engine/model/quantization/quantization_rules.h"

namespace quire {
namespace {

using nlohmann::json;

// Arguments of weights or of activations, with the package's defaults.
struct CompressedArgs {
  int64_t bits = 8;
  bool is_float = false;
  bool symmetric = true;
  std::string strategy;
  int64_t group_size = 0;
  int64_t block_rows = 0;
  int64_t block_columns = 0;
  bool dynamic = false;
  bool ordered = false;
};

// A group may be the name of one of these, with its targets as value.
struct CompressedPreset {
  absl::string_view name;
  absl::string_view weights;
  absl::string_view activations;  // empty: none
};
constexpr absl::string_view kInt8PerChannel = R"({"num_bits": 8, "strategy": "channel"})";
constexpr absl::string_view kInt8PerToken =
    R"({"num_bits": 8, "strategy": "token", "dynamic": true})";
constexpr absl::string_view kFp8PerToken =
    R"({"num_bits": 8, "type": "float", "strategy": "token", "dynamic": true})";
constexpr absl::string_view kFp4Group16 =
    R"({"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16})";
constexpr absl::string_view kFp4Group32 =
    R"({"num_bits": 4, "type": "float", "strategy": "group", "group_size": 32})";
constexpr absl::string_view kFp8Group32 =
    R"({"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32})";
constexpr absl::string_view kFp8Group32PerToken =
    R"({"num_bits": 8, "type": "float", "strategy": "group", "group_size": 32, "dynamic": true})";
constexpr CompressedPreset kPresets[] = {
    {"UNQUANTIZED", "", ""},
    {"W8A8", kInt8PerChannel, kInt8PerToken},
    {"INT8", kInt8PerChannel, kInt8PerToken},
    {"W4A16_ASYM", R"({"num_bits": 4, "strategy": "group", "group_size": 128, "symmetric": false})",
     ""},
    {"W4AFP8", R"({"num_bits": 4, "strategy": "group", "group_size": 128})", kFp8PerToken},
    {"FP8", R"({"num_bits": 8, "type": "float", "strategy": "tensor"})",
     R"({"num_bits": 8, "type": "float", "strategy": "tensor"})"},
    {"FP8_DYNAMIC", R"({"num_bits": 8, "type": "float", "strategy": "channel"})", kFp8PerToken},
    {"FP8_BLOCK",
     R"({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]})",
     R"({"num_bits": 8, "type": "float", "strategy": "group", "group_size": 128, "dynamic": true})"},
    {"NVFP4A16", kFp4Group16, ""},
    {"NVFP4", kFp4Group16, kFp4Group16},
    {"MXFP4A16", kFp4Group32, ""},
    {"MXFP4", kFp4Group32, kFp4Group32},
    {"MXFP8A16", kFp8Group32, ""},
    {"MXFP8", kFp8Group32, kFp8Group32PerToken},
};

// W4A16 and the like: groups of 128; fewer than 16 bits of activations are per token.
std::optional<std::pair<std::string, std::string>> WeightsAndActivations(absl::string_view name) {
  int weight_bits = 0;
  int activation_bits = 0;
  const size_t a = name.find('A');
  if (!absl::StartsWith(name, "W") || a == absl::string_view::npos ||
      !absl::SimpleAtoi(name.substr(1, a - 1), &weight_bits) ||
      !absl::SimpleAtoi(name.substr(a + 1), &activation_bits)) {
    return std::nullopt;
  }
  std::string activations;
  if (activation_bits < 16) {
    activations = absl::StrCat(R"({"num_bits": )", activation_bits,
                               R"(, "strategy": "token", "dynamic": true})");
  }
  return std::pair(
      absl::StrCat(R"({"num_bits": )", weight_bits, R"(, "strategy": "group", "group_size": 128})"),
      activations);
}

void ReadBlockStructure(JsonReader& config, CompressedArgs* args) {
  // Older files: "128x128".
  if (const json* value = config.Find("block_structure"); value != nullptr && value->is_string()) {
    const std::string& text = value->get_ref<const std::string&>();
    const size_t x = text.find('x');
    if (x == std::string::npos || !absl::SimpleAtoi(text.substr(0, x), &args->block_rows) ||
        !absl::SimpleAtoi(text.substr(x + 1), &args->block_columns)) {
      config.Fail(absl::StrCat("block_structure ", Shown(text), " must be like [128, 128]"));
    }
  } else {
    const std::vector<int64_t> sizes = config.IntOrIntList("block_structure", 1, kMaxGroup);
    if (sizes.empty()) return;
    if (sizes.size() != 2) return config.Fail("block_structure must be [rows, columns]");
    args->block_rows = sizes[0];
    args->block_columns = sizes[1];
  }
  if (args->block_rows < 1 || args->block_columns < 1 || args->block_rows > kMaxGroup ||
      args->block_columns > kMaxGroup) {
    config.Fail("block_structure must be two sizes above 0");
  }
}

void ReadActOrder(JsonReader& config, CompressedArgs* args) {
  const json* value = config.Find("actorder");
  if (value == nullptr) return;
  if (value->is_boolean()) {
    args->ordered = value->get<bool>();
    return;
  }
  const std::string order = absl::AsciiStrToLower(config.String("actorder").value_or(""));
  // "weight" changed how the weights were found, and nothing of how they are kept.
  args->ordered = order == "group" || order == "dynamic";
  if (args->ordered || order == "weight" || order == "static") return;
  config.FailUnsupported(
      absl::StrCat("actorder ", Shown(order), " is not supported; supported are group and weight"));
}

CompressedArgs ReadCompressedArgs(JsonReader config) {
  CompressedArgs args;
  args.bits = config.Int("num_bits", 1, 16).value_or(args.bits);
  const std::string type = absl::AsciiStrToLower(config.String("type").value_or("int"));
  args.is_float = type == "float";
  if (type != "int" && type != "float") {
    config.FailUnsupported(
        absl::StrCat("type ", Shown(type), " is not supported; supported are int and float"));
  }
  args.symmetric = config.Bool("symmetric").value_or(true);
  const int64_t group_size = config.Int("group_size", -1, kMaxGroup).value_or(0);
  args.group_size = std::max<int64_t>(group_size, 0);
  ReadBlockStructure(config, &args);
  args.strategy = absl::AsciiStrToLower(config.String("strategy")
                                            .value_or(group_size > 0   ? "group"
                                                      : group_size < 0 ? "channel"
                                                                       : "tensor"));
  if ((args.strategy == "group" || args.strategy == "tensor_group") && args.group_size == 0) {
    config.Fail(absl::StrCat("strategy ", args.strategy, " needs a group_size above 0"));
  }
  if (args.strategy == "block" && args.block_rows == 0) {
    config.Fail("strategy block needs a block_structure");
  }
  if (const json* dynamic = config.Find("dynamic"); dynamic != nullptr && !dynamic->is_string()) {
    args.dynamic = config.Bool("dynamic").value_or(false);
  } else if (dynamic != nullptr) {
    args.dynamic = true;  // "local"
  }
  ReadActOrder(config, &args);
  return args;
}

// The format that the package would choose for arguments without a format.
absl::string_view InferFormat(const CompressedArgs& weights, bool has_activations) {
  if (weights.is_float && weights.bits == 4) {
    return weights.group_size == 32 ? "mxfp4-pack-quantized" : "nvfp4-pack-quantized";
  }
  if (weights.is_float) {
    return weights.strategy == "group" && weights.group_size == 32 ? "mxfp8-quantized"
                                                                   : "float-quantized";
  }
  return has_activations ? "int-quantized" : "pack-quantized";
}

void SetGroups(const CompressedArgs& args, JsonReader& config, WeightScheme* scheme) {
  if (args.strategy == "tensor") {
    scheme->group_rows = 0;
    scheme->group_columns = 0;
  } else if (args.strategy == "channel") {
    scheme->group_rows = 1;
    scheme->group_columns = 0;
  } else if (args.strategy == "group" || args.strategy == "tensor_group") {
    scheme->group_rows = 1;
    scheme->group_columns = args.group_size;
  } else if (args.strategy == "block") {
    scheme->group_rows = args.block_rows;
    scheme->group_columns = args.block_columns;
  } else {
    config.FailUnsupported(absl::StrCat("weights: strategy ", Shown(args.strategy),
                                        " is not supported; supported are tensor, channel, group, "
                                        "tensor_group and block"));
  }
}

// What a row of the formats leaves open, and whether the arguments agree with it.
WeightScheme ReadWeights(const CompressedArgs& args, absl::string_view format, JsonReader& config) {
  WeightScheme scheme = FormatRow(format);
  const bool is_integer = scheme.IsInteger();
  const int64_t min_bits = is_integer ? 2 : scheme.bits;
  const int64_t max_bits = is_integer ? 8 : scheme.bits;
  if (args.is_float == is_integer || args.bits < min_bits || args.bits > max_bits) {
    config.FailUnsupported(absl::StrCat("weights of ", args.bits, " bits, type ",
                                        args.is_float ? "float" : "int", ", in format ", format,
                                        " are not supported"));
    return scheme;
  }
  scheme.bits = static_cast<int>(args.bits);
  const WeightScheme row = scheme;
  SetGroups(args, config, &scheme);
  if (row.scale_type != ScaleType::kFloat &&
      (scheme.group_rows != row.group_rows || scheme.group_columns != row.group_columns)) {
    config.FailUnsupported(
        absl::StrCat("weights of format ", format, " must be in groups of ", row.group_columns));
  }
  if (args.dynamic) config.FailUnsupported("weights: dynamic scales are not supported");
  scheme.zero_points = !args.symmetric;
  if (scheme.zero_points && (!is_integer || scheme.group_rows != 1)) {
    config.FailUnsupported(
        "weights: zero points (symmetric false) are supported of integers in channels or groups");
  }
  scheme.ordered = args.ordered;
  if (args.ordered && scheme.packing != WeightPacking::kPackedRows) {
    config.FailUnsupported(absl::StrCat("weights: actorder group of format ", format,
                                        " is not supported; supported is pack-quantized"));
  }
  return scheme;
}

ActivationScheme ReadActivations(const CompressedArgs& args, const WeightScheme& weights,
                                 JsonReader& config) {
  const bool is_local = args.strategy == "tensor_group";
  // Activations in fewer bits are an approximation that a GPU without such units does not gain by.
  if (args.is_float && (args.bits == 4 || is_local)) return ActivationScheme::kNone;
  if (args.is_float && args.bits == 8 && args.strategy == "group" && args.dynamic) {
    if (args.group_size == 128) return ActivationScheme::kE4M3PerGroup;
    if (args.group_size == 32 && weights.scale_type == ScaleType::kE8M0) {
      return ActivationScheme::kNone;
    }
  }
  if (!args.symmetric) {
    config.FailUnsupported("input_activations: zero points (symmetric false) are not supported");
    return ActivationScheme::kNone;
  }
  // A scale for a token is at least as exact as a dynamic one for all of them.
  const bool per_token = args.dynamic && (args.strategy == "token" || args.strategy == "tensor");
  if (args.bits == 8 && per_token) {
    return args.is_float ? ActivationScheme::kE4M3PerToken : ActivationScheme::kInt8PerToken;
  }
  if (args.is_float && args.bits == 8 && args.strategy == "tensor") {
    return ActivationScheme::kE4M3PerTensor;
  }
  config.FailUnsupported(absl::StrCat(
      "input_activations of ", args.bits, " bits, type ", args.is_float ? "float" : "int",
      ", strategy ", Shown(args.strategy), ", dynamic ", args.dynamic ? "true" : "false",
      " are not supported; supported are float8 per token, per group of 128 and static per tensor, "
      "and int8 per token"));
  return ActivationScheme::kNone;
}

constexpr absl::string_view kFormatNames[] = {
    "pack-quantized",       "int-quantized",        "float-quantized", "naive-quantized",
    "nvfp4-pack-quantized", "mxfp4-pack-quantized", "mxfp8-quantized", "dense"};

// The scheme of a group; nothing where its weights stay as they are.
std::optional<WeightScheme> ReadGroup(JsonReader group, const std::string& outer_format) {
  std::optional<JsonReader> weights = group.Object("weights");
  if (!weights) return std::nullopt;  // this group is only for attention
  std::optional<JsonReader> activations = group.Object("input_activations");
  if (group.Find("output_activations") != nullptr) {
    group.FailUnsupported("output_activations are not supported");
  }
  const CompressedArgs args = ReadCompressedArgs(*weights);
  std::string format = group.String("format").value_or(outer_format);
  if (format.empty() || format == "mixed-precision") {
    format = std::string(InferFormat(args, activations.has_value()));
  }
  if (std::find(std::begin(kFormatNames), std::end(kFormatNames), format) ==
      std::end(kFormatNames)) {
    group.FailUnsupported(absl::StrCat("format ", Shown(format),
                                       " is not supported; supported are ",
                                       absl::StrJoin(kFormatNames, ", ")));
    return std::nullopt;
  }
  if (format == "dense") return std::nullopt;
  if (format == "naive-quantized") format = args.is_float ? "float-quantized" : "int-quantized";
  WeightScheme scheme = ReadWeights(args, format, group);
  if (activations) {
    scheme.activations = ReadActivations(ReadCompressedArgs(*activations), scheme, group);
  }
  return scheme;
}

// The object that the file would have instead of a preset's name; null for an unknown one.
json PresetGroup(const std::string& name) {
  const std::string upper = absl::AsciiStrToUpper(name);
  const auto make = [](absl::string_view weights, absl::string_view activations) {
    json group = json::object();
    if (!weights.empty()) group["weights"] = ParseJson(weights);
    if (!activations.empty()) group["input_activations"] = ParseJson(activations);
    return group;
  };
  for (const CompressedPreset& preset : kPresets) {
    if (preset.name == upper) return make(preset.weights, preset.activations);
  }
  if (const auto args = WeightsAndActivations(upper)) return make(args->first, args->second);
  return nullptr;
}

struct CompressedTarget {
  std::optional<WeightScheme> scheme;
  std::string group;
};

// Exact names before expressions, and both before classes of modules: more special ones first.
void AddTargets(const std::map<std::string, CompressedTarget>& targets, JsonReader& config,
                QuantizationRules* rules) {
  for (const bool expressions : {false, true}) {
    for (const auto& [target, found] : targets) {
      if (target == "Linear" || absl::StartsWith(target, "re:") != expressions) continue;
      AddRule(target, NameRule::kCompressed, found.scheme, "config_groups", config, rules);
    }
  }
  if (const auto linear = targets.find("Linear"); linear != targets.end()) {
    rules->rest = linear->second.scheme;
  }
}

void ReadCompressedKvCache(JsonReader& config, KvCacheScheme* kv_cache) {
  std::optional<JsonReader> reader = config.Object("kv_cache_scheme");
  if (!reader) return;
  kv_cache->key = "kv_cache_scheme";
  const CompressedArgs args = ReadCompressedArgs(*reader);
  kv_cache->is_float8 = args.is_float && args.bits == 8 && args.symmetric;
  if (kv_cache->is_float8) return;
  kv_cache->not_served = absl::StrCat(args.is_float ? "float" : "int", args.bits,
                                      args.symmetric ? "" : " with zero points");
}

}  // namespace

void ReadCompressedTensors(JsonReader& config, QuantizationRules* rules) {
  const std::string format = config.String("format").value_or("");
  if (auto sparsity = config.Object("sparsity_config")) {
    const std::string sparse = sparsity->String("format").value_or("dense");
    if (sparse != "dense") {
      sparsity->FailUnsupported(
          absl::StrCat("format ", Shown(sparse), ": sparse weights are not supported"));
    }
  }
  if (const json* transforms = config.Find("transform_config");
      transforms != nullptr && transforms->is_object() && transforms->contains("config_groups") &&
      !(*transforms)["config_groups"].empty()) {
    config.FailUnsupported("transform_config: transforms of activations are not supported");
  }
  rules->ignored = ReadPatterns(config, "ignore", NameRule::kCompressed);
  ReadCompressedKvCache(config, &rules->kv_cache);
  std::optional<JsonReader> groups = config.Object("config_groups");
  if (!groups) return;
  std::map<std::string, CompressedTarget> targets;
  for (const auto& [name, value] : config.Find("config_groups")->items()) {
    if (value.is_array()) {
      groups->FailUnsupported(absl::StrCat("the preset ", Shown(name),
                                           " is not supported; supported are FP8, FP8_DYNAMIC, "
                                           "FP8_BLOCK, NVFP4, MXFP4, W8A8, W4A16 and the like"));
    }
    std::optional<JsonReader> reader = groups->Object(name);
    if (!reader) return;
    const std::optional<WeightScheme> scheme = ReadGroup(*reader, format);
    for (const std::string& target : reader->StringList("targets")) {
      const auto [it, is_new] = targets.try_emplace(target, CompressedTarget{scheme, name});
      if (!is_new && it->second.scheme != scheme) {
        reader->Fail(absl::StrCat("target ", Shown(target), " is also in ", it->second.group));
      }
    }
  }
  AddTargets(targets, config, rules);
}

json ExpandPresets(const json& object) {
  json expanded = object;
  const auto groups = expanded.find("config_groups");
  if (groups == expanded.end() || !groups->is_object()) return expanded;
  for (const auto& [name, value] : groups->items()) {
    if (!value.is_array()) continue;
    json group = PresetGroup(name);
    if (group.is_null()) continue;
    group["targets"] = value;
    value = std::move(group);
  }
  return expanded;
}

}  // namespace quire
