#include "engine/model/attention_shapes.h"

#include "engine/model/blocks/gqa_attention.h"
#include "kernels/base/check.h"

namespace quire {

KvLayout MakeKvLayout(const ModelConfig& model, DType kv_dtype, int32_t block_size) {
  std::vector<KvSpec> specs;
  specs.reserve(model.layers.size());
  for (const LayerConfig& layer : model.layers) {
    switch (layer.attention) {
      case AttentionKind::kGqa:
        specs.push_back(GqaKvSpec(model, layer, kv_dtype));
    }
  }
  return {.groups = GroupLayers(specs), .block_size = block_size};
}

std::vector<AttentionGeometry> MakeGeometries(const ModelConfig& model, const KvLayout& layout,
                                              DType query_dtype) {
  std::vector<AttentionGeometry> geometries;
  geometries.reserve(layout.groups.size());
  for (const KvLayerGroup& group : layout.groups) {
    CHECK_EQ(group.spec.k_head_dim, group.spec.v_head_dim);  // no path takes others
    geometries.push_back({.num_q_heads = model.num_q_heads,
                          .num_kv_heads = group.spec.num_kv_heads,
                          .head_dim = group.spec.k_head_dim,
                          .block_size = layout.block_size,
                          .query_dtype = query_dtype,
                          .kv_dtype = group.spec.dtype,
                          .scale = model.attention_scale,
                          .sliding_window = group.spec.sliding_window,
                          .soft_cap = model.attention_soft_cap});
  }
  return geometries;
}

}  // namespace quire
