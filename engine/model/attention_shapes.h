// The demands of a model on the KV cache and on an attention path. Only this file derives them.
// Plain functions; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/model/config/model_config.h"
#include "kernels/attention.h"
#include "kvcache/kv_layout.h"
#include "kvcache/state_arena.h"

namespace quire {

// The dtype of each layer's cache: kv_dtype, or dtype in the layers that `skipped` names. It names
// a layer by index, or all layers with a window by "sliding_window", as in vLLM's
// --kv-cache-dtype-skip-layers. OUT_OF_RANGE, naming that flag, for anything else.
absl::StatusOr<std::vector<DType>> KvCacheDTypes(const ModelConfig& model, DType kv_dtype,
                                                 absl::Span<const std::string> skipped,
                                                 DType dtype);

// Groups layers that keep alike, with caches of these dtypes: [num_layers].
KvLayout MakeKvLayout(const ModelConfig& model, absl::Span<const DType> kv_dtypes,
                      int32_t block_size);
// The same with one dtype for all caches.
KvLayout MakeKvLayout(const ModelConfig& model, DType kv_dtype, int32_t block_size);

// The states that layers keep of each sequence, with activations and recurrent states of these
// dtypes.
StateLayout MakeStateLayout(const ModelConfig& model, DType dtype, DType state_dtype);

// The geometry of each layer group, for queries of this dtype.
std::vector<AttentionGeometry> MakeGeometries(const ModelConfig& model, const KvLayout& layout,
                                              DType query_dtype);

}  // namespace quire
