#include "kernels/cuda/attention/tiled_attention.cuh"

namespace quire::cuda {

template TiledKernel Float8DecodeKernel<512>();

}  // namespace quire::cuda
