// What a model asks of the KV cache and of an attention backend. Plain functions; any thread.
#pragma once

#include <cstdint>

#include "engine/model/model_config.h"
#include "kernels/attention.h"
#include "kvcache/kv_arena.h"

namespace quire {

// Layers grouped by window; keys and values in the activations' dtype.
KvLayout MakeKvLayout(const ModelConfig& model, DType dtype, int32_t block_size);

// Of the layers with this window; 0 = full attention.
AttentionGeometry MakeGeometry(const ModelConfig& model, DType dtype, int32_t block_size,
                               int64_t sliding_window);

}  // namespace quire
