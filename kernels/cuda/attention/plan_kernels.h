// Planning on the device, once per step: two small kernels turn the step's metadata into the page
// table and the work lists. Their launch shape depends only on the number of sequences, so they can
// be captured in a graph.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/base/types.h"
#include "kernels/cuda/attention/tiles/variant.h"
#include "kernels/cuda/attention/tiles/work_list.h"

namespace quire::cuda {

inline constexpr int kNumWorkLists = 2;  // decode tiles, prefill tiles
// A split is shorter only where its tile has no more keys.
inline constexpr int32_t kMinDecodeSplit = 128, kMinPromptSplit = 256;

struct PlanParams {
  int32_t num_seqs;
  int32_t num_decode_tiled;  // sequences before this go to list 0, the others to list 1
  const int32_t* cu_seqlens_q;
  const int32_t* seq_lens;
  const int32_t* seq_rows;
  const int32_t* first_blocks;  // or null
  const BlockId* block_tables;
  int64_t block_table_stride;
  int32_t block_size;
  int32_t group_size;
  int32_t num_kv_heads;
  bool merges;  // AttentionLimits::merges: every result is left for merge_parts.h, cut or not
  AttentionVariant variant;
  PageTable pages;
  int32_t* csr_indices;  // the memory behind pages.kv_indices in CSR form; null in padded form
  SeqPlan* seq_plans;    // [max_num_seqs]
  WorkList lists[kNumWorkLists];

  // Whether tiles of this many splits leave their results in the list's parts.
  __host__ __device__ bool LeavesParts(int32_t num_splits) const {
    return num_splits > 1 || merges;
  }
};

void LaunchPlan(const PlanParams& params, cudaStream_t stream);

}  // namespace quire::cuda
