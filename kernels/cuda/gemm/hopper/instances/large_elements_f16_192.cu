#include "kernels/cuda/gemm/hopper/large_gemm_kernels.cuh"

namespace quire::cuda {

template LargeKernel LargeKernelFor<__half, false, 192, 2>();

}  // namespace quire::cuda
