#include "kernels/cuda/gemm/quantized/quantized_kernels.cuh"

namespace quire::cuda {

template QuantizedKernel QuantizedKernelFor<WeightValue::kFloat8, __half, 1>(int tile,
                                                                             bool is_gemv);

}  // namespace quire::cuda
