#include "kernels/cuda/attention/hopper/hopper_attention.cuh"

namespace quire::cuda {

template TiledKernel HopperPrefillKernel<__nv_bfloat16, 256>();

}  // namespace quire::cuda
