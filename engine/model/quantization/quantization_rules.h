// QuantizationRules: the result of reading a package's configuration, only for QuantizationConfig;
// and the functions that read the configurations. Each takes the object that describes the
// quantization, and records errors in its reader's status.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/json/json_reader.h"
#include "engine/model/quantization/name_patterns.h"
#include "engine/model/quantization/quantization_config.h"
#include "engine/model/quantization/weight_scheme.h"

namespace quire {

struct QuantizationRule {
  NamePattern pattern;
  std::optional<WeightScheme> scheme;  // nothing: not quantized
};

// The order of the questions: ignored, only, the rules, and the rest.
struct QuantizationRules {
  std::string method;
  std::string source;  // begins errors: "config.json: quantization_config"
  KvCacheScheme kv_cache;
  NamePatterns ignored;
  std::optional<NamePatterns> only;  // modules that match none of these are not quantized
  std::vector<QuantizationRule> rules;
  std::optional<WeightScheme> rest;
};

// The keys of an object in the file's order, which nlohmann::json forgets.
using KeyOrder = std::vector<std::string>;

// The object with groups in place of the names of presets, in the form that ReadCompressedTensors
// reads.
nlohmann::json ExpandPresets(const nlohmann::json& object);
void ReadCompressedTensors(JsonReader& config, QuantizationRules* rules);
void ReadFloat8(JsonReader& config, QuantizationRules* rules);
void ReadMxfp4(JsonReader& config, QuantizationRules* rules);
void ReadModelOpt(JsonReader& config, QuantizationRules* rules);
// `dynamic_order`: the keys of "dynamic".
void ReadGptq(JsonReader& config, const KeyOrder& dynamic_order, QuantizationRules* rules);
void ReadAwq(JsonReader& config, QuantizationRules* rules);
void ReadAutoRound(JsonReader& config, const KeyOrder& dynamic_order, QuantizationRules* rules);

// Common steps of several readers. If a pattern fails, the reader records that for the key.
void RecordPatternFailure(const absl::Status& status, absl::string_view key, JsonReader* config);
NamePatterns ReadPatterns(JsonReader& config, absl::string_view key, NameRule rule);
void AddRule(absl::string_view text, NameRule rule, const std::optional<WeightScheme>& scheme,
             absl::string_view key, JsonReader& config, QuantizationRules* rules);
// Heads of models are not quantized unless something says that they are.
void LeaveOutHead(JsonReader& config, QuantizationRules* rules);
// A group size as GPTQ and AWQ write it: -1 is all columns, 0 here.
std::optional<int64_t> ReadGroupSize(JsonReader& config, absl::string_view key);

inline constexpr int64_t kMaxGroup = 1 << 20;

}  // namespace quire
