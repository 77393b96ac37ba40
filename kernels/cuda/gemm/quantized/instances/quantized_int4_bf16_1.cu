#include "kernels/cuda/gemm/quantized/quantized_kernels.cuh"

namespace quire::cuda {

template QuantizedKernel QuantizedKernelFor<WeightValue::kInt4, __nv_bfloat16, 1>(int tile,
                                                                                  bool is_gemv);

}  // namespace quire::cuda
