// Rotary embedding and the write of K and V to the paged cache, one token at a time. Called on the
// stream's thread; tokens are spread over the pool where there are enough of them.
#pragma once

#include "kernels/cpu/thread_pool.h"
#include "kernels/op_args.h"

namespace quire::cpu {

inline constexpr int64_t kMaxRopeHeadDim = 1024;

// The cache may have another dtype than the activations (float32 or bfloat16 each).
void RopeAndStoreKv(const RopeAndStoreKvArgs& args, ThreadPool& pool);

}  // namespace quire::cpu
