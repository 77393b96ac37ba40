#include "kernels/cuda/gemm/hopper/large_gemm_kernels.cuh"

namespace quire::cuda {

template LargeKernel LargeKernelFor<__half, false, 256, 2>();

}  // namespace quire::cuda
