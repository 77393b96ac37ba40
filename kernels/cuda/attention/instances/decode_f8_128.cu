#include "kernels/cuda/attention/tiled_attention.cuh"

namespace quire::cuda {

template TiledKernel Float8DecodeKernel<128>();

}  // namespace quire::cuda
