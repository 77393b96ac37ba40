#include "kernels/cuda/gemm/quantized/quantized_kernels.cuh"

namespace quire::cuda {

template QuantizedKernel QuantizedKernelFor<WeightValue::kFloat8, __half, 4>(int tile);

}  // namespace quire::cuda
