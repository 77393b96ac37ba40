#include "kernels/cuda/gemm/quantized/quantized_kernels.cuh"

namespace quire::cuda {

template QuantizedKernel QuantizedKernelFor<WeightValue::kInt8, __half, 4>(int tile, bool is_gemv);

}  // namespace quire::cuda
