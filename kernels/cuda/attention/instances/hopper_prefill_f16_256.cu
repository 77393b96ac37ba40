#include "kernels/cuda/attention/hopper/hopper_attention.cuh"

namespace quire::cuda {

template TiledKernel HopperPrefillKernel<__half, 256>();

}  // namespace quire::cuda
