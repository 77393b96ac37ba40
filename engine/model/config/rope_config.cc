#include "engine/model/config/rope_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"

namespace quire {
namespace {

constexpr double kMaxTheta = 1e15;
constexpr double kMaxFactor = 1e6;
constexpr double kMaxOriginalPositions = 1e9;
// Above zero, and far from where divisions by it overflow.
constexpr double kTiny = 1e-6;

std::optional<RopeType> ParseType(absl::string_view name) {
  if (name == "default") return RopeType::kDefault;
  // A token of text has three equal positions there, of time, height and width.
  if (name == "mrope") return RopeType::kDefault;
  if (name == "linear") return RopeType::kLinear;
  if (name == "dynamic") return RopeType::kDynamic;
  if (name == "llama3") return RopeType::kLlama3;
  if (name == "yarn") return RopeType::kYarn;
  if (name == "longrope" || name == "su") return RopeType::kLongRope;
  if (name == "proportional") return RopeType::kProportional;
  return std::nullopt;
}

void ReadScaling(JsonReader& config, JsonReader& parameters, int64_t max_position_embeddings,
                 RopeConfig* rope) {
  // Beside the parameters in some checkpoints, and then it counts.
  std::optional<double> original =
      config.Double("original_max_position_embeddings", 1, kMaxOriginalPositions);
  if (!original)
    original = parameters.Double("original_max_position_embeddings", 1, kMaxOriginalPositions);
  rope->original_max_position_embeddings = original.value_or(max_position_embeddings);

  const std::optional<double> factor = parameters.Double("factor", kTiny, kMaxFactor);
  if (!factor && rope->type != RopeType::kYarn && rope->type != RopeType::kLongRope) {
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

// The list under `key`; its length is checked when the rotary dimension is known.
std::vector<double> ReadFactors(JsonReader& parameters, absl::string_view key) {
  std::vector<double> factors;
  const nlohmann::json* list = parameters.Find(key);
  if (list == nullptr || !list->is_array()) {
    parameters.Fail(absl::StrCat(key, " must be a list of numbers"));
    return factors;
  }
  for (const nlohmann::json& value : *list) {
    const double factor = value.is_number() ? value.get<double>() : 0;
    if (!(factor >= kTiny && factor <= kMaxFactor)) {
      parameters.Fail(absl::StrCat(key, ": ", Shown(value), " is not a number above 0"));
      return factors;
    }
    factors.push_back(factor);
  }
  return factors;
}

void ReadLongRope(JsonReader& parameters, RopeConfig* rope) {
  rope->short_factor = ReadFactors(parameters, "short_factor");
  rope->long_factor = ReadFactors(parameters, "long_factor");
  rope->attention_factor = parameters.Double("attention_factor", kTiny, kMaxFactor);
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
                                            "dynamic, llama3, yarn, longrope, mrope, "
                                            "proportional"));
    return;
  }
  rope->type = *type;
  if (rope->type == RopeType::kDefault) return;
  if (rope->type == RopeType::kProportional) {
    rope->factor = parameters.Double("factor", kTiny, kMaxFactor).value_or(1);
    return;
  }
  ReadScaling(config, parameters, max_position_embeddings, rope);
  if (rope->type == RopeType::kLlama3) ReadLlama3(parameters, rope);
  if (rope->type == RopeType::kYarn) ReadYarn(parameters, rope);
  if (rope->type == RopeType::kLongRope) ReadLongRope(parameters, rope);
}

void SetRotaryDim(JsonReader& config, const ModelFamily& family, int32_t head_dim,
                  RopeConfig* rope) {
  if (rope->type == RopeType::kProportional) {
    rope->rotary_dim = 2 * static_cast<int32_t>(head_dim * rope->partial_rotary_factor / 2);
    rope->pair_distance = head_dim / 2;
  } else {
    rope->rotary_dim = static_cast<int32_t>(head_dim * rope->partial_rotary_factor);
    rope->pair_distance = family.rotates_neighbours ? 1 : rope->rotary_dim / 2;
  }
  if (rope->rotary_dim < 2 || rope->rotary_dim % 2 != 0) {
    config.Fail(absl::StrCat("head_dim * partial_rotary_factor is ", rope->rotary_dim,
                             "; it must be even and at least 2"));
  }
  if (rope->type != RopeType::kLongRope) return;
  for (const auto* factors : {&rope->short_factor, &rope->long_factor}) {
    if (static_cast<int64_t>(factors->size()) == rope->rotary_dim / 2) continue;
    config.Fail(absl::StrCat("short_factor and long_factor must have ", rope->rotary_dim / 2,
                             " entries, one for each pair of the rotary dimension"));
  }
}

// Reads the scale of queries, for a family that has one with any type of rope.
void ReadQueryScale(JsonReader& parameters, RopeConfig* rope) {
  rope->query_scale_beta = parameters.Double("llama_4_scaling_beta", 0, kMaxFactor).value_or(0);
  rope->original_max_position_embeddings =
      parameters.Double("original_max_position_embeddings", 1, kMaxOriginalPositions)
          .value_or(rope->original_max_position_embeddings);
}

// Sets the values of Ministral 3's class, for a file that has no rope_parameters.
void SetDefaultQueryScale(RopeConfig* rope) {
  rope->type = RopeType::kYarn;
  rope->factor = 16;
  rope->original_max_position_embeddings = 16384;
  rope->mscale = rope->mscale_all_dim = 1;
  rope->query_scale_beta = 0.1;
}

// Sets the values of gpt-oss's class, for a file that has no rope_parameters.
void SetDefaultStretch(RopeConfig* rope) {
  rope->type = RopeType::kYarn;
  rope->factor = 32;
  rope->original_max_position_embeddings = 4096;
  rope->truncate = false;
}

// The ropes of layers without and with a window.
struct LayerTypeRopes {
  RopeConfig full;
  RopeConfig sliding;
};

LayerTypeRopes ReadLayerTypeRopes(JsonReader& config, const ModelFamily& family,
                                  int64_t max_position_embeddings) {
  LayerTypeRopes ropes;
  RopeConfig& full = ropes.full;
  full.theta = config.Double("rope_theta", 1 + kTiny, kMaxTheta).value_or(family.rope_theta);
  full.partial_rotary_factor =
      config.Double("partial_rotary_factor", kTiny, 1).value_or(family.partial_rotary_factor);
  full.original_max_position_embeddings = static_cast<double>(max_position_embeddings);
  const RopeConfig plain = full;
  const std::optional<double> local_theta =
      config.Double("rope_local_base_freq", 1 + kTiny, kMaxTheta);

  // transformers prefers rope_scaling where both are given.
  const absl::string_view key =
      config.Find("rope_scaling") != nullptr ? "rope_scaling" : "rope_parameters";
  std::optional<JsonReader> parameters = config.Object(key);
  const bool by_layer_type = parameters && (parameters->Find("full_attention") != nullptr ||
                                            parameters->Find("sliding_attention") != nullptr);
  if (parameters && !by_layer_type) {
    ReadParameters(config, *parameters, max_position_embeddings, &full);
    if (family.scales_queries) ReadQueryScale(*parameters, &full);
  }
  if (family.scales_queries && !parameters) SetDefaultQueryScale(&full);
  if (family.stretches_rope && !parameters) SetDefaultStretch(&full);
  // Sliding layers of such a family never see far enough to need scaling.
  ropes.sliding = family.rope_local_base_freq ? plain : full;
  if (family.rope_local_base_freq) {
    ropes.sliding.theta = local_theta.value_or(*family.rope_local_base_freq);
  }
  if (family.proportional_rotary_factor > 0 && !parameters) {
    full.type = RopeType::kProportional;
    full.partial_rotary_factor = family.proportional_rotary_factor;
  }
  if (!by_layer_type) return ropes;
  const std::pair<absl::string_view, RopeConfig*> layer_types[] = {
      {"full_attention", &full}, {"sliding_attention", &ropes.sliding}};
  for (const auto& [name, one] : layer_types) {
    std::optional<JsonReader> own = parameters->Object(name);
    if (own) ReadParameters(config, *own, max_position_embeddings, one);
  }
  return ropes;
}

// The head size of the first attention layer without a window. If every layer has a window, the
// largest head size.
int32_t FirstHeadDim(const ModelConfig& model) {
  for (const LayerConfig& layer : model.layers) {
    if (layer.attention == AttentionKind::kGqa && layer.gqa.sliding_window == 0) {
      return layer.gqa.head_dim;
    }
  }
  return MaxHeadDim(model);
}

}  // namespace

void ReadRopeConfigs(JsonReader& config, const ModelFamily& family, ModelConfig* model) {
  const auto [full, sliding] = ReadLayerTypeRopes(config, family, model->max_position_embeddings);
  std::vector<RopeConfig>& ropes = model->ropes;
  const auto index_of = [&](RopeConfig rope, int32_t head_dim) {
    SetRotaryDim(config, family, head_dim, &rope);
    const auto it = std::find(ropes.begin(), ropes.end(), rope);
    const auto index = static_cast<int32_t>(it - ropes.begin());
    if (it == ropes.end()) ropes.push_back(std::move(rope));
    return index;
  };
  index_of(full, FirstHeadDim(*model));
  for (LayerConfig& layer : model->layers) {
    GqaConfig& gqa = layer.gqa;
    if (layer.attention != AttentionKind::kGqa || gqa.rope < 0) continue;
    gqa.rope = index_of(gqa.sliding_window > 0 ? sliding : full, gqa.head_dim);
  }
}

}  // namespace quire
