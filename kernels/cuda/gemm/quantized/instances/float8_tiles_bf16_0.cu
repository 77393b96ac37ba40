#include "kernels/cuda/gemm/quantized/quantized_kernels.cuh"

namespace quire::cuda {

template QuantizedKernel Float8GemvFor<__nv_bfloat16, 0>();

}  // namespace quire::cuda
