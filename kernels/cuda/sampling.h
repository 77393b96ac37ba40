// The launches of the sampling kernels; semantics in kernels/sampling.h, broken logits as in
// kernels/cpu/sampler.h. One CTA samples one row in a few passes over its logits, without sorting.
// Weights are summed as fixed-point integers, so that no order of addition changes a draw, and a
// draw is made from the same random number as on the CPU. Used by the engine's thread.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/sampling.h"

namespace quire::cuda {

void LaunchSample(const SampleArgs& args, cudaStream_t stream);
void LaunchResetTokenCounts(const ResetTokenCountsArgs& args, cudaStream_t stream);

}  // namespace quire::cuda
