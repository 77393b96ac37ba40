#include "kernels/cuda/gemm/quantized/quantized_kernels.cuh"

namespace quire::cuda {

template QuantizedKernel Float8GemvFor<__half, 0>();

}  // namespace quire::cuda
