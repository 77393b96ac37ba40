// ModelOpt: one algorithm for all modules, or a table of them by module.
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/model/quantization/quantization_rules.h"

namespace quire {
namespace {

struct ModelOptAlgorithm {
  absl::string_view name;
  absl::string_view format;  // of FormatRow
  int64_t group_rows;
  int64_t group_columns;
  ActivationScheme activations;
};
constexpr ModelOptAlgorithm kAlgorithms[] = {
    {"FP8", "fp8-tensor", 0, 0, ActivationScheme::kE4M3PerTensor},
    {"FP8_PER_CHANNEL_PER_TOKEN", "fp8-tensor", 1, 0, ActivationScheme::kE4M3PerToken},
    {"FP8_PB_WO", "fp8-block", 128, 128, ActivationScheme::kNone},
    {"NVFP4", "modelopt-nvfp4", 1, 16, ActivationScheme::kNone},
    {"W4A16_NVFP4", "modelopt-nvfp4", 1, 16, ActivationScheme::kNone},
    {"MXFP8", "mxfp8-quantized", 1, 32, ActivationScheme::kNone},
};
constexpr absl::string_view kMixed = "MIXED_PRECISION";

std::optional<WeightScheme> ReadAlgorithm(JsonReader& config) {
  const std::string name = absl::AsciiStrToUpper(config.String("quant_algo").value_or(""));
  if (name.empty() || name == "NONE") return std::nullopt;
  for (const ModelOptAlgorithm& algorithm : kAlgorithms) {
    if (algorithm.name != name) continue;
    WeightScheme scheme = FormatRow(algorithm.format);
    scheme.group_rows = algorithm.group_rows;
    scheme.group_columns = algorithm.group_columns;
    scheme.activations = algorithm.activations;
    const std::optional<int64_t> group = config.Int("group_size", 0, kMaxGroup);
    const bool has_groups = scheme.group_rows == 1 && scheme.group_columns > 0;
    if (has_groups && group && *group != scheme.group_columns) {
      config.FailUnsupported(absl::StrCat("group_size ", *group, " of ", name,
                                          " is not supported; supported is ",
                                          scheme.group_columns));
    }
    return scheme;
  }
  // AWQ's variants scale the activations of some modules, which nothing here does.
  config.FailUnsupported(absl::StrCat(
      "quant_algo ", Shown(name),
      " is not supported; supported are FP8, "
      "FP8_PER_CHANNEL_PER_TOKEN, FP8_PB_WO, NVFP4, W4A16_NVFP4, MXFP8 and MIXED_PRECISION"));
  return std::nullopt;
}

void ReadLayers(JsonReader& config, QuantizationRules* rules) {
  std::optional<JsonReader> layers = config.Object("quantized_layers");
  if (!layers) return config.Fail("quant_algo MIXED_PRECISION needs quantized_layers");
  for (const auto& [name, value] : config.Find("quantized_layers")->items()) {
    std::optional<JsonReader> layer = layers->Object(name);
    if (!layer) return;
    AddRule(name, NameRule::kGlob, ReadAlgorithm(*layer), "quantized_layers", config, rules);
  }
}

void ReadModelOptKvCache(JsonReader& config, KvCacheScheme* kv_cache) {
  std::string name = config.String("kv_cache_quant_algo").value_or("");
  kv_cache->key = name.empty() ? "kv_cache_scheme" : "kv_cache_quant_algo";
  const nlohmann::json* value = config.Find("kv_cache_scheme");
  if (value != nullptr && value->is_string()) {
    kv_cache->key = "kv_cache_scheme";
    name = value->get<std::string>();
  } else if (auto scheme = config.Object("kv_cache_scheme")) {
    kv_cache->key = "kv_cache_scheme";
    const int64_t bits = scheme->Int("num_bits", 1, 16).value_or(8);
    const std::string type = scheme->String("type").value_or("float");
    name = bits == 8 && type == "float" ? "FP8" : absl::StrCat(type, bits);
  }
  if (name == "FP8") {
    kv_cache->is_float8 = true;
  } else if (!name.empty() && absl::AsciiStrToUpper(name) != "NONE") {
    kv_cache->not_served = name;
  }
}

void ReadQuantization(JsonReader& config, QuantizationRules* rules) {
  rules->method = "modelopt";
  std::vector<std::string> excluded = config.StringList("exclude_modules");
  for (std::string& name : config.StringList("ignore")) excluded.push_back(std::move(name));
  absl::StatusOr<NamePatterns> patterns = NamePatterns::Create(excluded, NameRule::kGlob);
  RecordPatternFailure(patterns.status(), "exclude_modules", &config);
  if (patterns.ok()) rules->ignored = *std::move(patterns);
  ReadModelOptKvCache(config, &rules->kv_cache);
  if (absl::AsciiStrToUpper(config.String("quant_algo").value_or("")) == kMixed) {
    ReadLayers(config, rules);
    return;
  }
  rules->rest = ReadAlgorithm(config);
}

}  // namespace

void ReadModelOpt(JsonReader& config, QuantizationRules* rules) {
  // The file of its own has all of it under "quantization".
  std::optional<JsonReader> inner = config.Object("quantization");
  if (!inner && !config.Has("quant_algo")) {
    config.Fail("quant_algo is missing, and so is hf_quant_config.json: download the model again");
  }
  ReadQuantization(inner ? *inner : config, rules);
}

}  // namespace quire
