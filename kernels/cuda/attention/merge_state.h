// Merging two partial attentions over disjoint keys, exactly: what shared prefixes are built on.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/base/tensor.h"

namespace quire::cuda {

// out, lse = the attention over both sets of keys. A pair of empty states gives zeros and
// -infinity.
struct MergeStateArgs {
  Tensor out_a;        // [num_tokens, num_heads, head_dim], float32, bfloat16 or float16
  const float* lse_a;  // [num_tokens, num_heads], base 2
  Tensor out_b;
  const float* lse_b;
  Tensor out;  // may be out_a or out_b
  float* lse;  // may be lse_a or lse_b
};

void LaunchMergeState(const MergeStateArgs& args, cudaStream_t stream);

}  // namespace quire::cuda
