// The launches of the sampling kernels; semantics in kernels/sampling.h, broken logits as in
// kernels/cpu/sampling/sampling.h. All logits are read once, by as many CTAs as there are slices
// (sampling_slices.h); then one CTA per row draws, reading again only what can still be drawn.
// Nothing is sorted but a list of at most 2048 tokens. Weights are summed as fixed-point integers
// or in a fixed order, and a draw is made from the same random number as on the CPU. Used by the
// engine's thread, on one stream at a time.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/sampling.h"

namespace quire::cuda {

// Device memory that Sample leaves notes in. Rows that it has no room for take turns.
inline constexpr int64_t kSampleWorkspaceBytes = int64_t{8} << 20;

void LaunchSample(const SampleArgs& args, void* workspace, cudaStream_t stream);

}  // namespace quire::cuda
