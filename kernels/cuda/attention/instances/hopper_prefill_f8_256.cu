#include "kernels/cuda/attention/hopper/hopper_attention.cuh"

namespace quire::cuda {

template TiledKernel Float8HopperPrefillKernel<256>();

}  // namespace quire::cuda
