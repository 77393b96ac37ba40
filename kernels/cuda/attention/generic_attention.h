// Attention without tensor cores, for float32 and for head sizes that tiled_attention.h does not
// have: one CTA per query token and head, in float32. For small models; correct, not fast.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/base/tensor.h"
#include "kernels/cuda/attention/tiles/work_list.h"
#include "kernels/op_args.h"

namespace quire::cuda {

struct GenericParams {
  Tensor q;              // [num_tokens, num_q_heads, head_dim]
  Tensor out;            // the same
  float* lse;            // [num_tokens, num_q_heads], base 2, or null
  KvCacheView kv_cache;  // float32 and bfloat16 in any combination, or all of it float16
  float scale;
  float soft_cap;
  int64_t sliding_window;
  int32_t num_seqs;
  const int32_t* cu_seqlens_q;
  const int32_t* seq_lens;
  PageTable pages;
};

void LaunchGenericAttention(const GenericParams& params, cudaStream_t stream);

}  // namespace quire::cuda
