#include "kernels/cuda/experts/expert_kernels.cuh"

namespace quire::cuda {

template ExpertKernel ExpertKernelFor<__nv_bfloat16, 128, 1>(bool is_gated);

}  // namespace quire::cuda
