#include "kernels/cuda/gemm/quantized/quantized_kernels.cuh"

namespace quire::cuda {

template QuantizedKernel Float8KernelFor<__nv_bfloat16, 1>(int tile);

}  // namespace quire::cuda
