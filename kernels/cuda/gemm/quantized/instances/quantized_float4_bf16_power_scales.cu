#include "kernels/cuda/gemm/quantized/quantized_kernels.cuh"

namespace quire::cuda {

template QuantizedKernel
QuantizedKernelFor<WeightValue::kFloat4, __nv_bfloat16, kPowerScaledGroups>(int tile, bool is_gemv);

}  // namespace quire::cuda
