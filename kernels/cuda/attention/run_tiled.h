// Enqueues the tensor-core kernels of a plan's work lists. The engine's thread.
#pragma once

#include <cuda_runtime.h>

#include "kernels/attention.h"
#include "kernels/cuda/attention/plan_memory.h"

namespace quire::cuda {

// Tiles are copied 16 bytes at a time: a misfit is a programmer's error and fails a CHECK.
void CheckAlignment(const AttentionRunArgs& args);

// The lists that the last batch filled. A launch that fails is noted by the stream.
void RunTiled(const PlanMemory& plan, const AttentionRunArgs& args, cudaStream_t stream);

}  // namespace quire::cuda
