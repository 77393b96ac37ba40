#include "kernels/cuda/attention/trtllm/decode_attention.cuh"

namespace quire::cuda::trtllm {

template DecodeKernel GetDecodeKernel<__nv_bfloat16, 64, 8>();
template DecodeKernel GetDecodeKernel<__nv_bfloat16, 64, 16>();

}  // namespace quire::cuda::trtllm
