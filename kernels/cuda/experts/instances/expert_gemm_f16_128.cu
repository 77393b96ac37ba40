#include "kernels/cuda/experts/expert_kernels.cuh"

namespace quire::cuda {

template ExpertKernel ExpertKernelFor<__half, 128, 1>(bool is_gated);

}  // namespace quire::cuda
