#include "kernels/cuda/attention/hopper/hopper_attention.cuh"

namespace quire::cuda {

template TiledKernel HopperPrefillKernel<__half, 128>();

}  // namespace quire::cuda
