#include "kernels/cuda/gemm/quantized/quantized_kernels.cuh"

namespace quire::cuda {

template QuantizedKernel QuantizedKernelFor<WeightValue::kInt4, __nv_bfloat16, 4>(int tile);

}  // namespace quire::cuda
