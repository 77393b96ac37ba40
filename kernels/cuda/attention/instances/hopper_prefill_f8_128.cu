#include "kernels/cuda/attention/hopper/hopper_attention.cuh"

namespace quire::cuda {

template TiledKernel Float8HopperPrefillKernel<128>();

}  // namespace quire::cuda
