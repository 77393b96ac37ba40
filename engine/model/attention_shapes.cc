#include "engine/model/attention_shapes.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/model/blocks/gated_delta_net.h"
#include "engine/model/blocks/gqa_attention.h"
#include "kernels/base/check.h"

namespace quire {
namespace {

// A layer that reads another's keys and values runs that one's attention plan.
void CheckSharing(const ModelConfig& model, int layer) {
  const GqaConfig& reader = model.layers[layer].gqa;
  if (!reader.kv_sharing_target) return;
  CHECK(*reader.kv_sharing_target >= 0 && *reader.kv_sharing_target < layer) << "layer " << layer;
  const GqaConfig& target = model.layers[*reader.kv_sharing_target].gqa;
  CHECK(!target.kv_sharing_target) << "layer " << layer;
  CHECK_EQ(target.sliding_window, reader.sliding_window) << "layer " << layer;
  CHECK_EQ(target.num_q_heads, reader.num_q_heads) << "layer " << layer;
  CHECK_EQ(target.num_kv_heads, reader.num_kv_heads) << "layer " << layer;
  CHECK_EQ(target.head_dim, reader.head_dim) << "layer " << layer;
}

// The number of query heads, which all layers of a group have in common.
int32_t NumQHeads(const ModelConfig& model, const KvLayerGroup& group) {
  const int32_t num_q_heads = model.layers[group.layers.front()].gqa.num_q_heads;
  for (const int layer : group.layers) {
    CHECK_EQ(model.layers[layer].gqa.num_q_heads, num_q_heads) << "layer " << layer;
  }
  return num_q_heads;
}

}  // namespace

absl::StatusOr<std::vector<DType>> KvCacheDTypes(const ModelConfig& model, DType kv_dtype,
                                                 absl::Span<const std::string> skipped,
                                                 DType dtype) {
  const auto num_layers = static_cast<int64_t>(model.layers.size());
  std::vector<DType> dtypes(num_layers, kv_dtype);
  for (const std::string& name : skipped) {
    int64_t index = -1;
    if (name == "sliding_window") {
      for (int64_t i = 0; i < num_layers; ++i) {
        if (model.layers[i].gqa.sliding_window > 0) dtypes[i] = dtype;
      }
    } else if (absl::SimpleAtoi(name, &index) && index >= 0 && index < num_layers) {
      dtypes[index] = dtype;
    } else {
      return absl::OutOfRangeError(absl::StrCat("--kv-cache-dtype-skip-layers: \"", name,
                                                "\" is neither a layer (0 .. ", num_layers - 1,
                                                ") nor sliding_window"));
    }
  }
  return dtypes;
}

KvLayout MakeKvLayout(const ModelConfig& model, absl::Span<const DType> kv_dtypes,
                      int32_t block_size) {
  CHECK_EQ(kv_dtypes.size(), model.layers.size());
  std::vector<KvSpec> specs;
  specs.reserve(model.layers.size());
  for (size_t i = 0; i < model.layers.size(); ++i) {
    const LayerConfig& layer = model.layers[i];
    switch (layer.attention) {
      case AttentionKind::kGqa:
        CheckSharing(model, static_cast<int>(i));
        specs.push_back(GqaKvSpec(layer.gqa, kv_dtypes[i]));
        break;
      case AttentionKind::kGatedDelta:
        specs.emplace_back();  // nothing of a token
    }
  }
  return {.groups = GroupLayers(specs), .block_size = block_size};
}

KvLayout MakeKvLayout(const ModelConfig& model, DType kv_dtype, int32_t block_size) {
  return MakeKvLayout(model, std::vector<DType>(model.layers.size(), kv_dtype), block_size);
}

StateLayout MakeStateLayout(const ModelConfig& model, DType dtype, DType state_dtype) {
  StateLayout layout;
  for (size_t i = 0; i < model.layers.size(); ++i) {
    if (model.layers[i].attention != AttentionKind::kGatedDelta) continue;
    layout[static_cast<int>(i)] = GatedDeltaStateSpec(model.layers[i].delta, dtype, state_dtype);
  }
  return layout;
}

std::vector<AttentionGeometry> MakeGeometries(const ModelConfig& model, const KvLayout& layout,
                                              DType query_dtype) {
  std::vector<AttentionGeometry> geometries;
  geometries.reserve(layout.groups.size());
  for (const KvLayerGroup& group : layout.groups) {
    geometries.push_back({.num_q_heads = NumQHeads(model, group),
                          .num_kv_heads = group.spec.num_kv_heads,
                          .k_head_dim = group.spec.k_head_dim,
                          .v_head_dim = group.spec.v_head_dim,
                          .block_size = layout.block_size,
                          .query_dtype = query_dtype,
                          .kv_dtype = group.spec.dtype,
                          .scale = model.attention_scale,
                          .sliding_window = group.spec.sliding_window,
                          .soft_cap = model.attention_soft_cap,
                          .sinks = model.attention_sinks});
  }
  return geometries;
}

}  // namespace quire
