#include "engine/model/quantization/quantization_config.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/json/json_reader.h"
#include "engine/json/model_file.h"
#include "engine/json/parse_json.h"
#include "engine/model/quantization/quantization_rules.h"
#include "kernels/base/status_macros.h"

namespace quire {
namespace {

using nlohmann::json;

constexpr absl::string_view kSupportedMethods =
    "compressed-tensors, fp8, modelopt, gptq, awq, auto-round and mxfp4";

// Methods that others know.
struct OtherMethod {
  absl::string_view name;
  absl::string_view advice;
};
constexpr OtherMethod kOtherMethods[] = {
    {"bitsandbytes", "use the model's bfloat16 checkpoint with --quantization fp8, or its AWQ"},
    {"exl2", "use an AWQ or GPTQ checkpoint of the model"},
    {"exl3", "use an AWQ or GPTQ checkpoint of the model"},
    {"aqlm", "use an AWQ or GPTQ checkpoint of the model"},
    {"quip", "use an AWQ or GPTQ checkpoint of the model"},
    {"hqq", "use an AWQ or GPTQ checkpoint of the model"},
    {"vptq", "use an AWQ or GPTQ checkpoint of the model"},
    {"quark", "use the model's compressed-tensors or official FP8 checkpoint"},
    {"torchao", "use the model's compressed-tensors or official FP8 checkpoint"},
    {"fbgemm_fp8", "use the model's compressed-tensors or official FP8 checkpoint"},
};

void RefuseMethod(JsonReader& config, const std::string& method) {
  absl::string_view advice = "use a checkpoint of one of these, or the model's bfloat16 one";
  for (const OtherMethod& other : kOtherMethods) {
    if (other.name == method) advice = other.advice;
  }
  config.FailUnsupported(absl::StrCat("quant_method ", Shown(method),
                                      " is not supported; supported are ", kSupportedMethods, ": ",
                                      advice));
}

// Old files leave it out.
std::optional<std::string> ReadMethod(JsonReader& config) {
  if (config.Has("quant_method")) return config.String("quant_method");
  if (config.Has("config_groups")) return "compressed-tensors";
  for (const absl::string_view key : {"load_in_4bit", "load_in_8bit"}) {
    if (config.Has(key)) return "bitsandbytes";
  }
  config.Fail(absl::StrCat("quant_method is missing; supported are ", kSupportedMethods));
  return std::nullopt;
}

void ReadByMethod(JsonReader& config, const std::string& method, const KeyOrder& dynamic_order,
                  QuantizationRules* rules) {
  rules->method = method;
  if (method == "compressed-tensors") return ReadCompressedTensors(config, rules);
  if (method == "fp8") return ReadFloat8(config, rules);
  if (method == "modelopt" || method == "modelopt_fp4") return ReadModelOpt(config, rules);
  if (method == "gptq") return ReadGptq(config, dynamic_order, rules);
  if (method == "awq") return ReadAwq(config, rules);
  if (method == "mxfp4") return ReadMxfp4(config, rules);
  if (method == "auto-round" || method == "auto_round" || method == "intel/auto-round") {
    rules->method = "auto-round";
    return ReadAutoRound(config, dynamic_order, rules);
  }
  RefuseMethod(config, method);
}

// The keys of <object>.dynamic; the object is where `path` leads. Nothing where the text is not
// plain JSON: the order counts only where several patterns match one module.
KeyOrder DynamicOrder(absl::string_view text, const std::vector<std::string>& path) {
  // Its depth is bounded: ParseModelJson took it.
  const auto parsed = ParseJson<nlohmann::ordered_json>(text);
  if (parsed.is_discarded()) return {};
  const nlohmann::ordered_json* object = &parsed;
  for (const std::string& key : path) {
    if (!object->is_object() || !object->contains(key)) return {};
    object = &object->at(key);
  }
  if (!object->is_object() || !object->contains("dynamic")) return {};
  const nlohmann::ordered_json& dynamic = object->at("dynamic");
  if (!dynamic.is_object()) return {};
  KeyOrder order;
  for (const auto& member : dynamic.items()) order.push_back(member.key());
  return order;
}

struct Source {
  const std::string* text;
  std::string file;
  json root;
};

absl::StatusOr<QuantizationRules> ReadObject(const Source& source, const json& object,
                                             const std::vector<std::string>& path,
                                             absl::string_view method) {
  absl::Status status;
  std::string name = source.file;
  for (const std::string& key : path) absl::StrAppend(&name, ": ", key);
  const json expanded = ExpandPresets(object);
  JsonReader config(expanded, name, &status);
  QuantizationRules rules;
  rules.source = name;
  const std::optional<std::string> read_method =
      method.empty() ? ReadMethod(config) : std::optional<std::string>(method);
  if (read_method) {
    ReadByMethod(config, *read_method, DynamicOrder(*source.text, path), &rules);
  }
  RETURN_IF_ERROR(status);
  std::string& key = rules.kv_cache.key;
  if (!key.empty()) key = absl::StrCat(name, ": ", key);
  return rules;
}

// Where config.json has the object, and which it is.
struct Place {
  std::vector<std::string> path;
  const json* object = nullptr;
};

absl::StatusOr<Place> FindObject(const Source& config) {
  // Models of several parts may keep it with the text part.
  for (const std::vector<std::string>& outer :
       {std::vector<std::string>{}, {"text_config"}, {"llm_config"}}) {
    absl::Status status;
    const json* object = &config.root;
    for (const std::string& key : outer)
      object = object->contains(key) ? &object->at(key) : nullptr;
    if (object == nullptr || !object->is_object()) continue;
    JsonReader reader(*object, config.file, &status);
    for (const char* key : {"quantization_config", "compression_config"}) {
      if (reader.Find(key) == nullptr) continue;
      reader.Object(key);
      RETURN_IF_ERROR(status);
      Place place = {outer, &object->at(key)};
      place.path.push_back(key);
      // A remainder of a quantizer that left the weights alone.
      if (!place.object->empty()) return place;
    }
  }
  return Place{};
}

absl::StatusOr<std::optional<Source>> ParseSource(const std::string& text, const char* file) {
  if (text.empty()) return std::nullopt;
  ASSIGN_OR_RETURN(json root, ParseModelJson(text, file));
  return Source{&text, file, std::move(root)};
}

}  // namespace

void RecordPatternFailure(const absl::Status& status, absl::string_view key, JsonReader* config) {
  if (!status.ok()) config->Fail(absl::StrCat(key, ": ", status.message()));
}

NamePatterns ReadPatterns(JsonReader& config, absl::string_view key, NameRule rule) {
  absl::StatusOr<NamePatterns> patterns = NamePatterns::Create(config.StringList(key), rule);
  RecordPatternFailure(patterns.status(), key, &config);
  return patterns.ok() ? *std::move(patterns) : NamePatterns();
}

void AddRule(absl::string_view text, NameRule rule, const std::optional<WeightScheme>& scheme,
             absl::string_view key, JsonReader& config, QuantizationRules* rules) {
  absl::StatusOr<NamePattern> pattern = NamePattern::Create(text, rule);
  RecordPatternFailure(pattern.status(), key, &config);
  if (pattern.ok()) rules->rules.push_back({*std::move(pattern), scheme});
  if (rules->rules.size() > 100'000) config.Fail(absl::StrCat(key, " has too many entries"));
}

void LeaveOutHead(JsonReader& config, QuantizationRules* rules) {
  AddRule("lm_head", NameRule::kLastPart, std::nullopt, "lm_head", config, rules);
}

std::optional<int64_t> ReadGroupSize(JsonReader& config, absl::string_view key) {
  const std::optional<int64_t> size = config.Int(key, -1, kMaxGroup);
  if (!size) return std::nullopt;
  if (*size == 0) config.Fail(absl::StrCat(key, " is 0; it must be -1 or above 0"));
  return *size == -1 ? 0 : *size;
}

QuantizationConfig::QuantizationConfig() : rules_(std::make_shared<QuantizationRules>()) {}

QuantizationConfig::QuantizationConfig(std::shared_ptr<const QuantizationRules> rules)
    : rules_(std::move(rules)) {}

absl::StatusOr<QuantizationTexts> ReadQuantizationTexts(const std::string& folder) {
  QuantizationTexts texts;
  for (const auto& [name, text] : {std::pair{"config.json", &texts.config},
                                   std::pair{"hf_quant_config.json", &texts.hf_quant_config},
                                   std::pair{"quantize_config.json", &texts.quantize_config},
                                   std::pair{"quant_config.json", &texts.quant_config}}) {
    absl::StatusOr<std::string> read = ReadModelFile(folder, name, kMaxConfigBytes);
    if (absl::IsNotFound(read.status())) continue;
    RETURN_IF_ERROR(read.status());
    *text = *std::move(read);
  }
  return texts;
}

absl::StatusOr<QuantizationConfig> QuantizationConfig::Load(const std::string& folder) {
  ASSIGN_OR_RETURN(const QuantizationTexts texts, ReadQuantizationTexts(folder));
  return Parse(texts);
}

absl::StatusOr<QuantizationConfig> QuantizationConfig::Parse(const QuantizationTexts& texts) {
  ASSIGN_OR_RETURN(const std::optional<Source> config, ParseSource(texts.config, "config.json"));
  Place place;
  if (config) {
    ASSIGN_OR_RETURN(place, FindObject(*config));
  }
  const auto make =
      [](absl::StatusOr<QuantizationRules> rules) -> absl::StatusOr<QuantizationConfig> {
    RETURN_IF_ERROR(rules.status());
    return QuantizationConfig(std::make_shared<const QuantizationRules>(*std::move(rules)));
  };
  // Older exports of ModelOpt say no more there than its name.
  const auto is_bare = [](const json& object) {
    return object.contains("quant_method") && object["quant_method"] == "modelopt" &&
           !object.contains("quant_algo") && !object.contains("quantization");
  };
  if (place.object != nullptr && (texts.hf_quant_config.empty() || !is_bare(*place.object))) {
    return make(ReadObject(*config, *place.object, place.path, ""));
  }
  ASSIGN_OR_RETURN(const std::optional<Source> model_opt,
                   ParseSource(texts.hf_quant_config, "hf_quant_config.json"));
  if (model_opt) return make(ReadObject(*model_opt, model_opt->root, {}, "modelopt"));
  ASSIGN_OR_RETURN(const std::optional<Source> gptq,
                   ParseSource(texts.quantize_config, "quantize_config.json"));
  if (gptq) {
    const bool names_method = gptq->root.contains("quant_method");
    return make(ReadObject(*gptq, gptq->root, {}, names_method ? "" : "gptq"));
  }
  ASSIGN_OR_RETURN(const std::optional<Source> awq,
                   ParseSource(texts.quant_config, "quant_config.json"));
  if (awq) return make(ReadObject(*awq, awq->root, {}, "awq"));
  return QuantizationConfig();
}

const std::string& QuantizationConfig::method() const { return rules_->method; }

const KvCacheScheme& QuantizationConfig::kv_cache() const { return rules_->kv_cache; }

absl::StatusOr<WeightScheme> QuantizationConfig::Find(absl::string_view module) const {
  const auto find = [&]() -> absl::StatusOr<WeightScheme> {
    ASSIGN_OR_RETURN(const bool ignored, rules_->ignored.Matches(module));
    if (ignored) return WeightScheme();
    if (rules_->only) {
      ASSIGN_OR_RETURN(const bool is_one, rules_->only->Matches(module));
      if (!is_one) return WeightScheme();
    }
    for (const QuantizationRule& rule : rules_->rules) {
      ASSIGN_OR_RETURN(const bool matches, rule.pattern.Matches(module));
      if (matches) return rule.scheme.value_or(WeightScheme());
    }
    return rules_->rest.value_or(WeightScheme());
  };
  absl::StatusOr<WeightScheme> scheme = find();
  if (scheme.ok()) return scheme;
  return absl::InvalidArgumentError(absl::StrCat(rules_->source, ": ", scheme.status().message()));
}

namespace {

// "q_proj, k_proj, v_proj"; of many, the first and the last.
std::string ListModules(absl::Span<const std::string> modules) {
  constexpr size_t kMostShown = 4;
  if (modules.size() <= kMostShown) return absl::StrJoin(modules, ", ");
  return absl::StrCat(modules.front(), " to ", modules.back());
}

}  // namespace

absl::StatusOr<WeightScheme> QuantizationConfig::FindShared(
    absl::Span<const std::string> modules) const {
  std::optional<WeightScheme> first;
  for (const std::string& module : modules) {
    ASSIGN_OR_RETURN(const WeightScheme scheme, Find(module));
    if (!first) first = scheme;
    if (*first == scheme) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        rules_->source, ": ", modules[0], " is ", Describe(*first), ", but ", module, " is ",
        Describe(scheme), "; modules that are computed as one (", ListModules(modules),
        ") must be quantized alike: quantize the model again, or use another checkpoint"));
  }
  return first.value_or(WeightScheme());
}

}  // namespace quire
