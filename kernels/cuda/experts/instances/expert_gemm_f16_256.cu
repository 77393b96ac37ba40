#include "kernels/cuda/experts/expert_kernels.cuh"

namespace quire::cuda {

template ExpertKernel ExpertKernelFor<__half, 256, 2>(bool is_gated);

}  // namespace quire::cuda
