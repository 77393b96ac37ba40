#include "kernels/cuda/attention/tiled_attention.cuh"

namespace quire::cuda {

template TiledKernel DecodeKernel<__half, 64>();

}  // namespace quire::cuda
