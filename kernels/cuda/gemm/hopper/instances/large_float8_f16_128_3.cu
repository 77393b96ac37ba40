#include "kernels/cuda/gemm/hopper/large_gemm_kernels.cuh"

namespace quire::cuda {

template LargeKernel LargeKernelFor<__half, true, 128, 3>();

}  // namespace quire::cuda
