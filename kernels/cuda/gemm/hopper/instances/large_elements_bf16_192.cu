#include "kernels/cuda/gemm/hopper/large_gemm_kernels.cuh"

namespace quire::cuda {

template LargeKernel LargeKernelFor<__nv_bfloat16, false, 192, 2>();

}  // namespace quire::cuda
