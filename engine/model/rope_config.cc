#include "engine/model/rope_config.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quire {
namespace {

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;
constexpr double kMaxPositions = 1e9;
// Above zero, and far from where divisions by it overflow.
constexpr double kTiny = 1e-6;

std::optional<RopeType> ParseType(absl::string_view name) {
  if (name == "default") return RopeType::kDefault;
  if (name == "linear") return RopeType::kLinear;
  if (name == "llama3") return RopeType::kLlama3;
  if (name == "yarn") return RopeType::kYarn;
  return std::nullopt;
}

// The object with the scaling parameters, if any. transformers prefers rope_scaling where both are
// given. Keyed by layer type, all types must agree: there is one table per model.
std::optional<JsonReader> FindParameters(JsonReader& config) {
  const absl::string_view key =
      config.Find("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
  std::optional<JsonReader> parameters = config.Object(key);
  if (!parameters) return std::nullopt;
  const nlohmann::json* full = parameters->Find("full_attention");
  const nlohmann::json* sliding = parameters->Find("sliding_attention");
  if (full == nullptr && sliding == nullptr) return parameters;
  if (full != nullptr && sliding != nullptr && *full != *sliding) {
    config.FailUnsupported(absl::StrCat(key, " differs between layer types; not supported yet"));
  }
  return parameters->Object(full != nullptr ? "full_attention" : "sliding_attention");
}

void ReadScaling(JsonReader& config, JsonReader& parameters, int64_t max_position_embeddings,
                 RopeConfig* rope) {
  // Beside the parameters in some checkpoints, and then it counts.
  std::optional<double> original =
      config.Double("original_max_position_embeddings", 1, kMaxPositions);
  if (!original) original = parameters.Double("original_max_position_embeddings", 1, kMaxPositions);
  rope->original_max_position_embeddings = original.value_or(max_position_embeddings);

  const std::optional<double> factor = parameters.Double("factor", kTiny, kMaxFactor);
  if (!factor && rope->type != RopeType::kYarn) {
    parameters.Fail("factor is missing");
  }
  rope->factor = factor.value_or(max_position_embeddings / rope->original_max_position_embeddings);
}

void ReadLlama3(JsonReader& parameters, RopeConfig* rope) {
  rope->low_freq_factor =
      parameters.Double("low_freq_factor", kTiny, kMaxFactor).value_or(rope->low_freq_factor);
  rope->high_freq_factor =
      parameters.Double("high_freq_factor", kTiny, kMaxFactor).value_or(rope->high_freq_factor);
  if (rope->high_freq_factor <= rope->low_freq_factor) {
    parameters.Fail(absl::StrCat("high_freq_factor (", rope->high_freq_factor,
                                 ") must be greater than low_freq_factor (", rope->low_freq_factor,
                                 ")"));
  }
}

void ReadYarn(JsonReader& parameters, RopeConfig* rope) {
  rope->beta_fast = parameters.Double("beta_fast", kTiny, kMaxFactor).value_or(rope->beta_fast);
  rope->beta_slow = parameters.Double("beta_slow", kTiny, kMaxFactor).value_or(rope->beta_slow);
  rope->mscale = parameters.Double("mscale", 0, kMaxFactor).value_or(0);
  rope->mscale_all_dim = parameters.Double("mscale_all_dim", 0, kMaxFactor).value_or(0);
  rope->attention_factor = parameters.Double("attention_factor", kTiny, kMaxFactor);
  rope->truncate = parameters.Bool("truncate").value_or(true);
}

void ReadParameters(JsonReader& config, JsonReader& parameters, int64_t max_position_embeddings,
                    RopeConfig* rope) {
  rope->theta = parameters.Double("rope_theta", 1 + kTiny, kMaxTheta).value_or(rope->theta);
  rope->partial_rotary_factor =
      parameters.Double("partial_rotary_factor", kTiny, 1).value_or(rope->partial_rotary_factor);
  std::optional<std::string> name = parameters.String("rope_type");
  if (!name) name = parameters.String("type");
  const std::optional<RopeType> type = ParseType(name.value_or("default"));
  if (!type) {
    parameters.FailUnsupported(absl::StrCat("rope_type ", Shown(*name),
                                            " is not supported; supported are default, linear, "
                                            "llama3, yarn"));
    return;
  }
  rope->type = *type;
  if (rope->type == RopeType::kDefault) return;
  ReadScaling(config, parameters, max_position_embeddings, rope);
  if (rope->type == RopeType::kLlama3) ReadLlama3(parameters, rope);
  if (rope->type == RopeType::kYarn) ReadYarn(parameters, rope);
}

}  // namespace

RopeConfig ReadRopeConfig(JsonReader& config, int64_t max_position_embeddings) {
  RopeConfig rope;
  rope.theta = config.Double("rope_theta", 1 + kTiny, kMaxTheta).value_or(rope.theta);
  rope.partial_rotary_factor =
      config.Double("partial_rotary_factor", kTiny, 1).value_or(rope.partial_rotary_factor);
  rope.original_max_position_embeddings = max_position_embeddings;
  if (std::optional<JsonReader> parameters = FindParameters(config)) {
    ReadParameters(config, *parameters, max_position_embeddings, &rope);
  }
  return rope;
}

}  // namespace quire
