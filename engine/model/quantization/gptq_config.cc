// GPTQ (AutoGPTQ, GPTQModel), AWQ (AutoAWQ, GPTQModel) and AutoRound in the packing of either.
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/model/quantization/quantization_rules.h"

namespace quire {
namespace {

// The keys that an override of single modules may have, too.
void ReadBits(JsonReader& config, absl::string_view key, WeightScheme* scheme) {
  const std::optional<int64_t> bits = config.Int(key, 1, 64);
  if (!bits) return;
  const bool is_awq = scheme->packing == WeightPacking::kAwq;
  if (*bits != 4 && (*bits != 8 || is_awq)) {
    config.FailUnsupported(absl::StrCat(key, " is ", *bits, ", which is not supported; supported ",
                                        is_awq ? "is 4" : "are 4 and 8"));
    return;
  }
  scheme->bits = static_cast<int>(*bits);
}

void ReadGptqModule(JsonReader& config, WeightScheme* scheme) {
  ReadBits(config, config.Has("bits") ? "bits" : "w_bit", scheme);
  const auto group =
      ReadGroupSize(config, config.Has("group_size") ? "group_size" : "q_group_size");
  scheme->group_columns = group.value_or(scheme->group_columns);
  if (const auto symmetric = config.Bool("sym")) scheme->zero_points = !*symmetric;
  scheme->ordered = config.Bool("desc_act").value_or(scheme->ordered);
}

// Which of the two ways of storing zero points: the first stores one less.
void ReadGptqFormat(JsonReader& config, WeightScheme* scheme) {
  const std::optional<std::string> other = config.String("checkpoint_format");
  const std::string format =
      absl::AsciiStrToLower(other ? *other : config.String("format").value_or("gptq"));
  if (config.Bool("is_marlin_format").value_or(false)) {
    config.FailUnsupported("is_marlin_format is not supported; supported are gptq and gptq_v2");
  }
  if (format == "gptq_v2") {
    scheme->zero_offset = 0;
  } else if (format != "gptq") {
    config.FailUnsupported(absl::StrCat("format ", Shown(format),
                                        " is not supported; supported are gptq and gptq_v2"));
  }
  const std::string words = config.String("pack_dtype").value_or("int32");
  if (words != "int32") {
    config.FailUnsupported(
        absl::StrCat("pack_dtype ", Shown(words), " is not supported; supported is int32"));
  }
}

// The first pattern that matches a module says what is other in it ("+:" or nothing before it), or
// that it is not quantized ("-:").
void ReadDynamic(JsonReader& config, const KeyOrder& order, const WeightScheme& base,
                 QuantizationRules* rules) {
  std::optional<JsonReader> dynamic = config.Object("dynamic");
  if (!dynamic) return;
  KeyOrder keys = order;
  if (keys.empty()) {
    for (const auto& [key, value] : config.Find("dynamic")->items()) keys.push_back(key);
  }
  if (keys.size() > NamePatterns::kMaxExpressions) {
    return dynamic->Fail(absl::StrCat("more than ", NamePatterns::kMaxExpressions, " patterns"));
  }
  for (const std::string& key : keys) {
    absl::string_view pattern = key;
    const bool excludes = absl::ConsumePrefix(&pattern, "-:");
    if (!excludes) absl::ConsumePrefix(&pattern, "+:");
    std::optional<WeightScheme> scheme;
    if (!excludes) {
      scheme = base;
      std::optional<JsonReader> overrides = dynamic->Object(key);
      if (overrides) ReadGptqModule(*overrides, &*scheme);
    }
    AddRule(pattern, NameRule::kRegex, scheme, "dynamic", config, rules);
  }
}

// Lists of lists of names within a layer: other modules stay as they are.
void ReadModulesInBlock(JsonReader& config, QuantizationRules* rules) {
  constexpr absl::string_view kKey = "modules_in_block_to_quantize";
  const auto lists = config.List(kKey);
  if (!lists) return;
  std::vector<std::string> names;
  for (const nlohmann::json& list : **lists) {
    for (const nlohmann::json& name : list.is_array() ? list : nlohmann::json::array({list})) {
      if (!name.is_string()) return config.Fail(absl::StrCat(kKey, " must have names"));
      names.push_back(name.get<std::string>());
    }
  }
  absl::StatusOr<NamePatterns> patterns = NamePatterns::Create(names, NameRule::kLastPart);
  RecordPatternFailure(patterns.status(), kKey, &config);
  if (patterns.ok()) rules->only = *std::move(patterns);
}

WeightScheme ReadAwqScheme(JsonReader& config) {
  WeightScheme scheme = FormatRow("awq");
  ReadBits(config, config.Has("bits") ? "bits" : "w_bit", &scheme);
  const auto group =
      ReadGroupSize(config, config.Has("group_size") ? "group_size" : "q_group_size");
  scheme.group_columns = group.value_or(scheme.group_columns);
  if (const auto zeros = config.Bool("zero_point")) scheme.zero_points = *zeros;
  if (const auto symmetric = config.Bool("sym")) scheme.zero_points = !*symmetric;
  return scheme;
}

// Modules with other bits or groups; 16 bits and more: not quantized.
void ReadExtraConfig(JsonReader& config, const WeightScheme& base, QuantizationRules* rules) {
  std::optional<JsonReader> extra = config.Object("extra_config");
  if (!extra) return;
  for (const auto& [name, value] : config.Find("extra_config")->items()) {
    std::optional<JsonReader> module = extra->Object(name);
    if (!module) return;
    std::optional<WeightScheme> scheme = base;
    if (module->Int("bits", 1, 64).value_or(base.bits) >= 16) {
      scheme.reset();
    } else {
      ReadGptqModule(*module, &*scheme);
    }
    const bool is_expression = name.find_first_of("*+?[](){}|^$\\") != std::string::npos;
    AddRule(name, is_expression ? NameRule::kRegex : NameRule::kExact, scheme, "extra_config",
            config, rules);
  }
}

// A list of the beginnings of names, or one text with commas.
void ReadBlocks(JsonReader& config, const WeightScheme& base, QuantizationRules* rules) {
  for (const absl::string_view key : {"block_name_to_quantize", "to_quant_block_names"}) {
    const nlohmann::json* value = config.Find(key);
    if (value == nullptr) continue;
    std::vector<std::string> names;
    if (value->is_string()) {
      names = absl::StrSplit(value->get_ref<const std::string&>(), ',', absl::SkipEmpty());
    } else {
      names = config.StringList(key);
    }
    for (const std::string& name : names) {
      AddRule(name, NameRule::kPrefix, base, key, config, rules);
    }
    return;
  }
  LeaveOutHead(config, rules);
  rules->rest = base;
}

}  // namespace

void ReadGptq(JsonReader& config, const KeyOrder& dynamic_order, QuantizationRules* rules) {
  if (!config.Has("bits") && !config.Has("w_bit")) config.Fail("bits is missing");
  WeightScheme scheme = FormatRow("gptq");
  ReadGptqModule(config, &scheme);
  ReadGptqFormat(config, &scheme);
  ReadDynamic(config, dynamic_order, scheme, rules);
  ReadModulesInBlock(config, rules);
  if (!config.Bool("lm_head").value_or(false)) LeaveOutHead(config, rules);
  rules->rest = scheme;
}

void ReadAwq(JsonReader& config, QuantizationRules* rules) {
  const std::string version = absl::AsciiStrToLower(
      config.String("version").value_or(config.String("format").value_or("gemm")));
  const std::string backend = config.String("backend").value_or("");
  if (version != "gemm" || backend == "llm-awq") {
    config.FailUnsupported(absl::StrCat("version ", Shown(backend == "llm-awq" ? backend : version),
                                        " is not supported; supported is gemm"));
  }
  rules->ignored = ReadPatterns(config, "modules_to_not_convert", NameRule::kSubstring);
  LeaveOutHead(config, rules);
  rules->rest = ReadAwqScheme(config);
}

void ReadAutoRound(JsonReader& config, const KeyOrder& dynamic_order, QuantizationRules* rules) {
  const std::string packing = config.String("packing_format").value_or("auto_round:auto_gptq");
  const std::string type = config.String("data_type").value_or("int");
  if (type != "int") {
    config.FailUnsupported(
        absl::StrCat("data_type ", Shown(type), " is not supported; supported is int"));
  }
  if (const auto bits = config.Int("act_bits", 1, 64); bits && *bits < 16) {
    config.FailUnsupported(absl::StrCat("act_bits ", *bits, " is not supported; supported is 16"));
  }
  WeightScheme scheme;
  if (packing == "auto_round:auto_awq" || packing == "auto_awq") {
    scheme = ReadAwqScheme(config);
  } else {
    scheme = FormatRow("gptq");
    ReadGptqModule(config, &scheme);
    // Zero points one less than they are, or as they are.
    const bool is_first = packing == "auto_round:auto_gptq" || packing == "auto_gptq";
    if (!is_first && packing != "auto_round" && packing != "auto_round:gptqmodel") {
      config.FailUnsupported(
          absl::StrCat("packing_format ", Shown(packing),
                       " is not supported; supported are auto_round, "
                       "auto_round:auto_gptq, auto_round:gptqmodel and auto_round:auto_awq"));
    }
    scheme.zero_offset = is_first ? 1 : 0;
  }
  rules->ignored = ReadPatterns(config, "modules_to_not_convert", NameRule::kSubstring);
  ReadExtraConfig(config, scheme, rules);
  ReadDynamic(config, dynamic_order, scheme, rules);
  ReadModulesInBlock(config, rules);
  ReadBlocks(config, scheme, rules);
}

}  // namespace quire
