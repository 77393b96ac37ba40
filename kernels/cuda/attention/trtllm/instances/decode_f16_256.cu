#include "kernels/cuda/attention/trtllm/decode_attention.cuh"

namespace quire::cuda::trtllm {

template DecodeKernel GetDecodeKernel<__half, 256, 8>();
template DecodeKernel GetDecodeKernel<__half, 256, 16>();

}  // namespace quire::cuda::trtllm
