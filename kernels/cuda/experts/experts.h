// ExpertsGatedLinear and ExpertsLinear on a GPU (kernels/experts.h). Used by the engine's thread.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/experts.h"

namespace quire::cuda {

// The arguments have been checked. The sum over a token's experts is taken in one order; the gemm
// that computes a row depends only on the numbers of pairs and experts.
void LaunchExpertsGatedLinear(const ExpertsGatedLinearArgs& args, cudaStream_t stream);
void LaunchExpertsLinear(const ExpertsLinearArgs& args, cudaStream_t stream);

}  // namespace quire::cuda
