#include "kernels/cuda/attention/tiled_attention.cuh"

namespace quire::cuda {

template TiledKernel DecodeKernel<__half, 512>();

}  // namespace quire::cuda
