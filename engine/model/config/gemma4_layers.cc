#include "engine/model/config/gemma4_layers.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/model/config/layer_configs.h"
#include "engine/model/config/routed_mlp_config.h"
#include "kernels/sampling.h"

namespace quire {
namespace {

// By the layer's index: the keys of a layer that has other heads than most.
void ReadPerLayerConfig(JsonReader& config, ModelConfig* model) {
  std::optional<JsonReader> layers = config.Object("per_layer_config");
  if (!layers) return;
  for (const auto& [name, keys] : config.Find("per_layer_config")->items()) {
    int64_t index = -1;
    if (!absl::SimpleAtoi(name, &index) || index < 0 ||
        index >= static_cast<int64_t>(model->layers.size())) {
      layers->Fail(
          absl::StrCat(Shown(name), " is no layer; num_hidden_layers is ", model->layers.size()));
      return;
    }
    std::optional<JsonReader> layer = layers->Object(name);
    if (!layer) return;
    GqaConfig& gqa = model->layers[index].gqa;
    gqa.head_dim =
        static_cast<int32_t>(layer->Int("head_dim", 1, kMaxHeadDim).value_or(gqa.head_dim));
    gqa.num_kv_heads = static_cast<int32_t>(
        layer->Int("num_key_value_heads", 1, kMaxHeads).value_or(gqa.num_kv_heads));
    for (const auto& [key, value] : keys.items()) {
      if (key == "head_dim" || key == "num_key_value_heads") continue;
      layer->FailUnsupported(absl::StrCat(
          Shown(key), " is not supported; supported are head_dim and num_key_value_heads"));
    }
  }
}

// The same for all layers without a window.
void ReadGlobalHeads(JsonReader& config, const ModelFamily& family, ModelConfig* model) {
  const int64_t head_dim =
      config.Int("global_head_dim", 1, kMaxHeadDim).value_or(family.global_head_dim);
  const std::optional<int64_t> num_kv_heads =
      config.Int("num_global_key_value_heads", 1, kMaxHeads);
  for (LayerConfig& layer : model->layers) {
    if (layer.gqa.sliding_window > 0) continue;
    layer.gqa.head_dim = static_cast<int32_t>(head_dim);
    if (layer.gqa.value_is_key && num_kv_heads) {
      layer.gqa.num_kv_heads = static_cast<int32_t>(*num_kv_heads);
    }
  }
}

void CheckHeads(JsonReader& config, const ModelConfig& model) {
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const GqaConfig& gqa = model.layers[i].gqa;
    if (gqa.num_q_heads % gqa.num_kv_heads != 0) {
      config.Fail(absl::StrCat("num_attention_heads (", gqa.num_q_heads,
                               ") must be a multiple of the ", gqa.num_kv_heads,
                               " KV heads of layer ", i));
    }
    if (gqa.head_dim % 2 != 0) {
      config.Fail(absl::StrCat("the head size of layer ", i, " (", gqa.head_dim, ") must be even"));
    }
  }
}

// The last layers store no keys and values: each reads those of the last layer before them that is
// like it.
void ReadSharing(JsonReader& config, ModelConfig* model) {
  const auto num_layers = static_cast<int64_t>(model->layers.size());
  const int64_t num_shared = config.Int("num_kv_shared_layers", 0, num_layers - 1).value_or(0);
  const bool double_wide = config.Bool("use_double_wide_mlp").value_or(false);
  const int64_t first = num_layers - num_shared;
  for (int64_t i = first; i < num_layers; ++i) {
    LayerConfig& layer = model->layers[i];
    int64_t target = first - 1;
    while (target >= 0 && model->layers[target].gqa.sliding_window != layer.gqa.sliding_window) {
      --target;
    }
    if (target < 0) {
      config.Fail(absl::StrCat("num_kv_shared_layers is ", num_shared, ", but layer ", i,
                               " has no earlier layer of its type to read from"));
      return;
    }
    const GqaConfig& read = model->layers[target].gqa;
    if (read.head_dim != layer.gqa.head_dim || read.num_kv_heads != layer.gqa.num_kv_heads) {
      config.Fail(absl::StrCat("layer ", i, " reads the keys and values of layer ", target,
                               ", which has other heads (num_kv_shared_layers, per_layer_config)"));
      return;
    }
    layer.gqa.kv_sharing_target = static_cast<int32_t>(target);
    if (double_wide) layer.intermediate_size *= 2;
  }
}

void ReadPerLayerInput(JsonReader& config, const ModelFamily& family, ModelConfig* model) {
  constexpr absl::string_view kSize = "hidden_size_per_layer_input";
  PerLayerInputConfig& input = model->per_layer_input;
  const int64_t absent = config.Has(kSize) ? 0 : family.per_layer_input_size;
  input.size = config.Int(kSize, 0, kMaxHiddenSize).value_or(absent);
  if (input.size == 0) return;
  input.vocab_size =
      config.Int("vocab_size_per_layer_input", 1, kMaxVocabSize).value_or(family.vocab_size);
  if (input.vocab_size < model->vocab_size) {
    config.Fail(absl::StrCat("vocab_size_per_layer_input (", input.vocab_size,
                             ") must be at least vocab_size (", model->vocab_size, ")"));
  }
}

// Experts beside the MLP of every layer. The class has no defaults for them.
void ReadExperts(JsonReader& config, ModelConfig* model) {
  const auto read = [&config](absl::string_view key, int64_t least, int64_t most) {
    const std::optional<int64_t> value = config.Int(key, least, most);
    if (!value) config.Fail(absl::StrCat(key, " is missing, which enable_moe_block asks for"));
    return value.value_or(least);
  };
  RoutedMlpConfig experts;
  experts.router.num_experts =
      static_cast<int32_t>(read("num_experts", kMinExperts, RouterRule::kMaxExperts));
  experts.router.top_k = static_cast<int32_t>(read("top_k_experts", 1, RouterRule::kMaxTopK));
  experts.router.renormalise = true;
  experts.expert_scales = true;
  experts.intermediate_size = read("moe_intermediate_size", 1, kMaxHiddenSize);
  if (experts.router.top_k > experts.router.num_experts) {
    config.Fail(absl::StrCat("top_k_experts (", experts.router.top_k,
                             ") must be at most num_experts (", experts.router.num_experts, ")"));
    return;
  }
  model->expert_names = ExpertNames::kGemma;
  for (LayerConfig& layer : model->layers) {
    layer.mlp = MlpKind::kGatedAndRouted;
    layer.routed = experts;
  }
}

}  // namespace

void ReadGemma4Layers(JsonReader& config, const ModelFamily& family, ModelConfig* model) {
  model->layers.back().gqa.sliding_window = 0;  // whatever its type says
  const bool value_is_key = config.Bool("attention_k_eq_v").value_or(false);
  for (LayerConfig& layer : model->layers) {
    layer.gqa.value_is_key = value_is_key && layer.gqa.sliding_window == 0;
  }
  if (config.Find("per_layer_config") != nullptr) {
    ReadPerLayerConfig(config, model);
  } else {
    ReadGlobalHeads(config, family, model);
  }
  CheckHeads(config, *model);
  ReadSharing(config, model);
  ReadPerLayerInput(config, family, model);
  if (config.Bool("enable_moe_block").value_or(false)) ReadExperts(config, model);
}

}  // namespace quire
