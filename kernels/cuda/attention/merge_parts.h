// What a plan that merges (AttentionLimits::merges) does when all of its tiles' splits are
// computed: each row's parts become one, and that and what its output holds already become the
// attention to the keys of both. The engine's thread.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/cuda/attention/tiles/work_list.h"

namespace quire::cuda {

struct MergePartsParams {
  void* out;  // [num_tokens, num_q_heads, head_dim], of 16 bits an element
  int64_t out_row_stride;
  float* lse;  // [num_tokens, num_q_heads], base 2
  DType dtype;
  int32_t num_tokens;
  int32_t num_q_heads;
  int32_t num_kv_heads;
  int32_t head_dim;
  // The plan's prompts, and their parts.
  int32_t num_seqs;
  const int32_t* cu_seqlens_q;
  const int32_t* seq_lens;
  const SeqPlan* seq_plans;
  WorkList work;
  int32_t part_dim;  // elements of a row of a part, at least head_dim
};

// Rows of sequences without keys, and of none, stay as they are.
void LaunchMergeParts(const MergePartsParams& params, cudaStream_t stream);

}  // namespace quire::cuda
