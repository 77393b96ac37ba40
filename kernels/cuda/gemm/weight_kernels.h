// Launches of what goes with a linear operation beside the gemm itself. A launch that fails is left
// for cudaGetLastError. Used by the engine's thread.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/base/tensor.h"
#include "kernels/weight_store.h"

namespace quire::cuda {

// out[row] += bias, for [num_rows, size].
void LaunchAddBias(const Tensor& bias, const Tensor& out, cudaStream_t stream);
void LaunchFill(const LinearWeight& weight, const FillWeightArgs& args, cudaStream_t stream);

}  // namespace quire::cuda
