#include "kernels/cuda/attention/trtllm/decode_attention.cuh"

namespace quire::cuda::trtllm {

template DecodeKernel GetDecodeKernel<__nv_fp8_e4m3, 256, 8>();
template DecodeKernel GetDecodeKernel<__nv_fp8_e4m3, 256, 16>();

}  // namespace quire::cuda::trtllm
