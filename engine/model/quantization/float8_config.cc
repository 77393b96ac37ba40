// fp8: e4m3 in blocks (DeepSeek, Qwen, GLM, MiniMax) or with one scale a weight (AutoFP8, Mistral).
// mxfp4: gpt-oss.
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/model/quantization/quantization_rules.h"

namespace quire {
namespace {

// Both keys name modules that stay as they are; some checkpoints have the one, some the other.
NamePatterns ReadSkipped(JsonReader& config) {
  std::vector<std::string> names = config.StringList("modules_to_not_convert");
  for (std::string& name : config.StringList("ignored_layers")) names.push_back(std::move(name));
  absl::StatusOr<NamePatterns> patterns = NamePatterns::Create(names, NameRule::kTransformers);
  RecordPatternFailure(patterns.status(), "modules_to_not_convert, ignored_layers", &config);
  return patterns.ok() ? *std::move(patterns) : NamePatterns();
}

// AutoFP8 writes "static" or a type, others an object.
void ReadFloat8KvCache(JsonReader& config, KvCacheScheme* kv_cache) {
  const nlohmann::json* value = config.Find("kv_cache_scheme");
  if (value == nullptr) return;
  kv_cache->key = "kv_cache_scheme";
  kv_cache->is_float8 = value->is_string() && value->get_ref<const std::string&>() == "static";
  if (!kv_cache->is_float8) kv_cache->not_served = Shown(*value);
}

}  // namespace

void ReadFloat8(JsonReader& config, QuantizationRules* rules) {
  const std::string type = absl::AsciiStrToLower(config.String("fmt").value_or("e4m3"));
  if (type != "e4m3" && type != "float8_e4m3fn") {
    config.FailUnsupported(
        absl::StrCat("fmt ", Shown(type), " is not supported; supported is e4m3"));
  }
  if (const auto experts = config.String("expert_dtype"); experts && *experts != "fp8") {
    config.FailUnsupported(
        absl::StrCat("expert_dtype ", Shown(*experts), " is not supported; supported is fp8"));
  }
  if (!config.StringList("modules_to_convert").empty()) {
    config.FailUnsupported("modules_to_convert (embeddings in float8) is not supported");
  }
  const std::string activations = config.String("activation_scheme").value_or("dynamic");
  const bool is_static = activations == "static";
  if (!is_static && activations != "dynamic") {
    config.FailUnsupported(absl::StrCat("activation_scheme ", Shown(activations),
                                        " is not supported; supported are dynamic and static"));
  }
  WeightScheme scheme = FormatRow("fp8-tensor");
  scheme.activations =
      is_static ? ActivationScheme::kE4M3PerTensor : ActivationScheme::kE4M3PerToken;
  const std::vector<int64_t> block = config.IntOrIntList("weight_block_size", 1, kMaxGroup);
  if (!block.empty()) {
    if (block.size() != 2) config.Fail("weight_block_size must be [rows, columns]");
    if (is_static) {
      config.FailUnsupported(
          "activation_scheme static with weight_block_size is not supported; supported is dynamic");
    }
    scheme = FormatRow("fp8-block");
    scheme.group_rows = block.front();
    scheme.group_columns = block.back();
    scheme.activations = ActivationScheme::kE4M3PerGroup;
  }
  scheme.activation_scale_is_power_of_two = config.String("scale_fmt").value_or("") == "ue8m0";
  rules->ignored = ReadSkipped(config);
  LeaveOutHead(config, rules);
  rules->rest = scheme;
  ReadFloat8KvCache(config, &rules->kv_cache);
}

void ReadMxfp4(JsonReader& config, QuantizationRules* rules) {
  rules->ignored = ReadSkipped(config);
  // Only the experts, whatever the list leaves out.
  AddRule(".experts.", NameRule::kSubstring, FormatRow("gpt-oss-mxfp4"), "quant_method", config,
          rules);
}

}  // namespace quire
