// What a model asks of the KV cache and of an attention path; the only place that derives it. Plain
// functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/model_config.h"
#include "kernels/attention.h"
#include "kvcache/kv_layout.h"

namespace quire {

// Layers grouped by what they keep.
KvLayout MakeKvLayout(const ModelConfig& model, DType kv_dtype, int32_t block_size);

// Of each layer group, for queries of this dtype.
std::vector<AttentionGeometry> MakeGeometries(const ModelConfig& model, const KvLayout& layout,
                                              DType query_dtype);

}  // namespace quire
