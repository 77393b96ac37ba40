#include "kernels/cuda/attention/trtllm/decode_attention.cuh"

namespace quire::cuda::trtllm {

template DecodeKernel GetDecodeKernel<__nv_fp8_e5m2, 64, 8>();
template DecodeKernel GetDecodeKernel<__nv_fp8_e5m2, 64, 16>();

}  // namespace quire::cuda::trtllm
