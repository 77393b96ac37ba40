#include "kernels/cuda/gemm/quantized/quantized_kernels.cuh"

namespace quire::cuda {

template QuantizedKernel Float8KernelFor<__half, 0>(int tile);

}  // namespace quire::cuda
