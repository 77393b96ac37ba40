#include "kernels/cuda/attention/tiled_attention.cuh"

namespace quire::cuda {

template TiledKernel DecodeKernel<__nv_bfloat16, 512>();

}  // namespace quire::cuda
