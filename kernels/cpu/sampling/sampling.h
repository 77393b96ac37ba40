// Sampling on the CPU; semantics in kernels/sampling.h. Rows are spread over the pool and share
// nothing. A draw is the inverse of the cumulative distribution, in token order over the tokens
// that top-k, top-p and min-p keep, at one uniform number from Philox4x32-10 keyed by (seed,
// position). A row with a NaN says so (kBrokenLogitsId), which costs its own request only;
// +infinity counts as the largest float, and what penalties and bias make NaN as -infinity; where
// every logit is -infinity the choice of a row without a mask is id 0. Equal logits rank by id,
// lowest first. Called on the stream's thread.
#pragma once

#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/sampling.h"

namespace quire::cpu {

void Sample(const SampleArgs& args, ThreadPool& pool);

}  // namespace quire::cpu
