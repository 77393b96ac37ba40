#include "engine/model/attention_shapes.h"

namespace quire {

KvLayout MakeKvLayout(const ModelConfig& model, DType dtype, int32_t block_size) {
  return {.groups = GroupLayersByWindow(model.layer_windows),
          .num_kv_heads = model.num_kv_heads,
          .head_dim = model.head_dim,
          .block_size = block_size,
          .dtype = dtype};
}

AttentionGeometry MakeGeometry(const ModelConfig& model, DType dtype, int32_t block_size,
                               int64_t sliding_window) {
  return {.num_q_heads = model.num_q_heads,
          .num_kv_heads = model.num_kv_heads,
          .head_dim = model.head_dim,
          .block_size = block_size,
          .query_dtype = dtype,
          .kv_dtype = dtype,
          .scale = model.attention_scale,
          .sliding_window = sliding_window,
          .soft_cap = model.attention_soft_cap};
}

}  // namespace quire
