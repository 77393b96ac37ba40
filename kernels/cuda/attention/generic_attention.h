// Attention without tensor cores, for what tiled_attention.h does not take: queries or a cache in
// float32, odd head sizes with 8-bit caches, and heads too large for the device's shared memory.
// One CTA per query token and head, in float32; correct, not fast.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/base/tensor.h"
#include "kernels/cuda/attention/tiles/variant.h"
#include "kernels/cuda/attention/tiles/work_list.h"
#include "kernels/op_args.h"

namespace quire::cuda {

struct GenericParams {
  Tensor q;    // [num_tokens, num_q_heads, head_dim]
  Tensor out;  // likewise
  float* lse;  // [num_tokens, num_q_heads], base 2, or null
  KvCacheView kv_cache;
  AttentionVariant variant;
  const float* sinks;  // [num_q_heads], or null
  bool merges;         // AttentionLimits::merges
  int32_t num_seqs;
  const int32_t* cu_seqlens_q;
  const int32_t* seq_lens;
  PageTable pages;
};

void LaunchGenericAttention(const GenericParams& params, cudaStream_t stream);

}  // namespace quire::cuda
