#include "engine/model/config/layer_configs.h"

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/config/gemma4_layers.h"
#include "engine/model/config/routed_mlp_config.h"

namespace quire {
namespace {

// The heads of a layer, which every layer has.
GqaConfig ReadHeads(JsonReader& config, const ModelFamily& family, int64_t hidden_size) {
  GqaConfig heads;
  heads.num_q_heads = static_cast<int32_t>(
      config.Int("num_attention_heads", 1, kMaxHeads).value_or(family.num_q_heads));

  // An explicit null means what older classes mean by it, not the family's default.
  const int64_t kv_heads_default = config.Has("num_key_value_heads")
                                       ? heads.num_q_heads
                                       : family.num_kv_heads.value_or(heads.num_q_heads);
  heads.num_kv_heads = static_cast<int32_t>(
      config.Int("num_key_value_heads", 1, kMaxHeads).value_or(kv_heads_default));
  if (heads.num_q_heads % heads.num_kv_heads != 0) {
    config.Fail(absl::StrCat("num_attention_heads (", heads.num_q_heads,
                             ") must be a multiple of num_key_value_heads (", heads.num_kv_heads,
                             ")"));
  }

  const int64_t derived_head_dim = hidden_size / heads.num_q_heads;
  const int64_t head_dim_default =
      config.Has("head_dim") ? derived_head_dim : family.head_dim.value_or(derived_head_dim);
  heads.head_dim =
      static_cast<int32_t>(config.Int("head_dim", 1, kMaxHeadDim).value_or(head_dim_default));
  if (heads.head_dim < 2 || heads.head_dim % 2 != 0) {
    config.Fail(absl::StrCat("head_dim (", heads.head_dim,
                             ") must be even and at least 2; it is hidden_size / "
                             "num_attention_heads where the file has no head_dim"));
  }
  return heads;
}

// no_rope_layers has a 1 for each layer that does have rotary positions.
void ReadLayerRopes(JsonReader& config, const ModelFamily& family, ModelConfig* model) {
  if (family.no_rope_interval == 0) return;
  const int64_t interval =
      config.Int("no_rope_layer_interval", 1, kMaxLayers).value_or(family.no_rope_interval);
  const std::vector<int64_t> have_rope = config.IntOrIntList("no_rope_layers", 0, 1);
  const size_t num_layers = model->layers.size();
  if (!have_rope.empty() && have_rope.size() != num_layers) {
    config.Fail(absl::StrCat("no_rope_layers has ", have_rope.size(),
                             " entries; num_hidden_layers is ", num_layers));
    return;
  }
  for (size_t i = 0; i < num_layers; ++i) {
    const bool has_rope =
        have_rope.empty() ? (static_cast<int64_t>(i) + 1) % interval != 0 : have_rope[i] == 1;
    if (!has_rope) model->layers[i].gqa.rope = -1;
  }
}

// The window of the layers that slide; 0 when none does.
int64_t ReadWindow(JsonReader& config, const ModelFamily& family) {
  const bool is_optional = family.window_rule == WindowRule::kAllIfUsed ||
                           family.window_rule == WindowRule::kUpperLayers ||
                           family.window_rule == WindowRule::kLowerEven ||
                           family.window_rule == WindowRule::kWithoutRope;
  if (is_optional && !config.Bool("use_sliding_window").value_or(false)) {
    return 0;
  }
  const int64_t window_default =
      config.Has("sliding_window") ? 0 : family.sliding_window.value_or(0);
  return config.Int("sliding_window", 1, kMaxPositions).value_or(window_default);
}

// Whether a layer slides when the config has no layer_types.
bool Slides(JsonReader& config, const ModelFamily& family, int64_t layer, bool has_rope) {
  const auto max_window_layers = [&] {
    return config.Int("max_window_layers", 0, kMaxPositions).value_or(family.max_window_layers);
  };
  switch (family.window_rule) {
    case WindowRule::kNone:
      return false;
    case WindowRule::kEveryLayer:
    case WindowRule::kAllIfUsed:
      return true;
    case WindowRule::kUpperLayers:
      return layer >= max_window_layers();
    case WindowRule::kLowerEven:
      return layer % 2 == 0 && layer < max_window_layers();
    case WindowRule::kPattern:
      return (layer + 1) % config.Int("sliding_window_pattern", 1, kMaxLayers)
                               .value_or(family.window_pattern) !=
             0;
    case WindowRule::kWithoutRope:
      return !has_rope;
  }
  return false;
}

// Reads the shape that all gated delta nets of a model have.
GatedDeltaShape ReadGatedDelta(JsonReader& config) {
  GatedDeltaShape shape;
  const auto read = [&config](absl::string_view key, int64_t least, int64_t most, int64_t absent) {
    return static_cast<int32_t>(config.Int(key, least, most).value_or(absent));
  };
  shape.num_k_heads = read("linear_num_key_heads", 1, kMaxHeads, 16);
  shape.num_v_heads = read("linear_num_value_heads", 1, kMaxHeads, 32);
  shape.k_head_dim = read("linear_key_head_dim", 8, GatedDeltaShape::kMaxHeadDim, 128);
  shape.v_head_dim = read("linear_value_head_dim", 8, GatedDeltaShape::kMaxHeadDim, 128);
  shape.conv_width = read("linear_conv_kernel_dim", 2, GatedDeltaShape::kMaxConvWidth, 4);
  if (shape.num_v_heads % shape.num_k_heads != 0) {
    config.Fail(absl::StrCat("linear_num_value_heads (", shape.num_v_heads,
                             ") must be a multiple of linear_num_key_heads (", shape.num_k_heads,
                             ")"));
  }
  if (shape.k_head_dim % 8 != 0 || shape.v_head_dim % 8 != 0) {
    config.FailUnsupported(absl::StrCat("linear_key_head_dim (", shape.k_head_dim,
                                        ") and linear_value_head_dim (", shape.v_head_dim,
                                        ") must be multiples of 8"));
  }
  return shape;
}

// That layers are as they are in the family's code, whatever newer models say.
void RefuseOtherGates(JsonReader& config) {
  if (!config.Bool("attn_output_gate").value_or(true)) {
    config.FailUnsupported("attn_output_gate false is not supported: attention has gates");
  }
  const std::string gate = config.String("output_gate_type").value_or("swish");
  if (gate != "swish" && gate != "silu") {
    config.FailUnsupported(
        absl::StrCat("output_gate_type ", Shown(gate), " is not supported; supported is swish"));
  }
}

// Reads the type of the recurrent states that the layers keep for a sequence.
DType ReadStateDType(JsonReader& config) {
  const std::string name = config.String("mamba_ssm_dtype").value_or("float32");
  if (name == "bfloat16") return DType::kBF16;
  if (name != "float32") {
    config.FailUnsupported(absl::StrCat("mamba_ssm_dtype ", Shown(name),
                                        " is not supported; supported are float32, bfloat16"));
  }
  return DType::kF32;
}

// Reads which layers are gated delta nets: those that layer_types names linear_attention or,
// without layer_types, all layers except every full_attention_interval-th.
void ReadGatedDeltaLayers(JsonReader& config, const ModelFamily& family, ModelConfig* model) {
  RefuseOtherGates(config);
  const GatedDeltaShape shape = ReadGatedDelta(config);
  model->state_dtype = ReadStateDType(config);
  const std::vector<std::string> types = config.StringList("layer_types");
  const size_t num_layers = model->layers.size();
  if (!types.empty() && types.size() != num_layers) {
    config.Fail(absl::StrCat("layer_types has ", types.size(), " entries; num_hidden_layers is ",
                             num_layers));
    return;
  }
  const int64_t interval =
      config.Int("full_attention_interval", 1, kMaxLayers).value_or(family.full_attention_interval);
  size_t num_states = 0;
  for (size_t i = 0; i < num_layers; ++i) {
    LayerConfig& layer = model->layers[i];
    const bool is_full = types.empty() ? (static_cast<int64_t>(i) + 1) % interval == 0
                                       : types[i] == "full_attention";
    if (!types.empty() && !is_full && types[i] != "linear_attention") {
      config.FailUnsupported(absl::StrCat("layer_types: ", Shown(types[i]),
                                          " is not supported; supported are full_attention and "
                                          "linear_attention"));
      return;
    }
    layer.gqa.output_gate = true;
    if (is_full) continue;
    layer.attention = AttentionKind::kGatedDelta;
    layer.gqa = {};
    layer.delta = shape;
    ++num_states;
  }
  if (num_states == num_layers) config.FailUnsupported("no layer is full_attention");
}

void ReadLayerWindows(JsonReader& config, const ModelFamily& family, int64_t window,
                      ModelConfig* model) {
  const std::vector<std::string> types = config.StringList("layer_types");
  const size_t num_layers = model->layers.size();
  if (types.empty()) {
    for (size_t i = 0; i < num_layers; ++i) {
      GqaConfig& layer = model->layers[i].gqa;
      if (Slides(config, family, static_cast<int64_t>(i), layer.rope >= 0)) {
        layer.sliding_window = window;
      }
    }
    return;
  }
  if (types.size() != num_layers) {
    config.Fail(absl::StrCat("layer_types has ", types.size(), " entries; num_hidden_layers is ",
                             num_layers));
    return;
  }
  for (size_t i = 0; i < num_layers; ++i) {
    if (types[i] == "sliding_attention" && window == 0) {
      config.Fail("layer_types names sliding_attention, but sliding_window is off");
    } else if (types[i] == "sliding_attention") {
      model->layers[i].gqa.sliding_window = window;
    } else if (types[i] != "full_attention") {
      config.FailUnsupported(absl::StrCat("layer_types: ", Shown(types[i]),
                                          " is not supported; supported are full_attention and "
                                          "sliding_attention"));
    }
  }
}

// That all layers are attention and dense MLPs, with or without rope.
void ReadSharedMlpLayers(JsonReader& config, ModelConfig* model) {
  if (config.Int("num_local_experts", 0, kMaxHeads).value_or(8) > 0) {
    config.FailUnsupported("num_local_experts is not 0: layers with experts are not supported yet");
  }
  std::vector<std::string> types = config.StringList("layer_types");
  if (types.empty()) types = config.StringList("layers_block_type");  // as it was called before
  for (const std::string& type : types) {
    if (type == "attention" || type == "full_attention") continue;
    config.FailUnsupported(
        absl::StrCat("layer_types: ", Shown(type), " is not supported; supported is attention"));
  }
  if (types.size() != model->layers.size()) {
    config.FailUnsupported(
        absl::StrCat("layer_types names ", types.size(), " of ", model->layers.size(),
                     " layers; the others are Mamba layers, which are not supported"));
  }
  if (config.String("position_embedding_type").value_or("nope") == "rope") return;
  for (LayerConfig& layer : model->layers) layer.gqa.rope = -1;
}

// Reads the attention of all layers.
void ReadAttention(JsonReader& config, const ModelFamily& family, ModelConfig* model) {
  if (family.full_attention_interval > 0) return ReadGatedDeltaLayers(config, family, model);
  if (family.shared_mlp) return ReadSharedMlpLayers(config, model);
  ReadLayerRopes(config, family, model);
  const int64_t window = ReadWindow(config, family);
  ReadLayerWindows(config, family, window, model);
  if (family.window_ropes == WindowRopes::kWindows ||
      (family.window_ropes == WindowRopes::kWindowsOfHybrid && window > 0)) {
    for (LayerConfig& layer : model->layers) {
      if (layer.gqa.sliding_window == 0) layer.gqa.rope = -1;
    }
  }
  if (family.global_head_dim > 0) ReadGemma4Layers(config, family, model);
}

}  // namespace

void ReadLayerConfigs(JsonReader& config, const ModelFamily& family, ModelConfig* model) {
  const std::optional<int64_t> inner =
      family.shared_mlp ? config.Int("shared_intermediate_size", 1, kMaxHiddenSize)
                        : config.Int("intermediate_size", 1, kMaxHiddenSize);
  const LayerConfig layer = {.gqa = ReadHeads(config, family, model->hidden_size),
                             .intermediate_size = inner.value_or(family.intermediate_size)};
  model->layers.assign(config.Int("num_hidden_layers", 1, kMaxLayers).value_or(family.num_layers),
                       layer);
  ReadAttention(config, family, model);
  if (family.routed.num_experts > 0) ReadRoutedMlps(config, family, model);
}

}  // namespace quire
