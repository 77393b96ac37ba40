// What a plan that merges (AttentionLimits::merges) does when all of its tiles' splits are
// computed: each row's parts become one, and that and what its output holds already become the
// attention to the keys of both. The engine's thread.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention/tiles/tiled_attention.h"

namespace quire::cuda {

struct MergePartsParams {
  TiledParams tiled;   // as the tiles had it; elements of its `out` have 16 bits
  int32_t num_tokens;  // of `out`
  int32_t num_seqs;
  const SeqPlan* seq_plans;
  int32_t part_dim;  // elements of a row of a part, at least head_dim
};

// Rows of sequences without keys, and of none, stay as they are.
void LaunchMergeParts(const MergePartsParams& params, cudaStream_t stream);

}  // namespace quire::cuda
