#include "kernels/cuda/attention/hopper/hopper_attention.cuh"

namespace quire::cuda {

template TiledKernel HopperPrefillKernel<__half, 64>();

}  // namespace quire::cuda
