#include "kernels/cuda/attention/hopper/hopper_attention.cuh"

namespace quire::cuda {

template TiledKernel Float8HopperPrefillKernel<64>();

}  // namespace quire::cuda
