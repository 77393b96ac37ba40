// The launches of the kernel that merges partial attentions: what shared prefixes are built on.
// float32, bfloat16 or float16.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/op_args.h"

namespace quire::cuda {

void LaunchMergeState(const MergeStateArgs& args, cudaStream_t stream);
void LaunchMergeStates(const MergeStatesArgs& args, cudaStream_t stream);

}  // namespace quire::cuda
