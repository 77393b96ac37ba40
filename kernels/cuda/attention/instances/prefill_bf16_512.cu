#include "kernels/cuda/attention/tiled_attention.cuh"

namespace quire::cuda {

template TiledKernel PrefillKernel<__nv_bfloat16, 512>();

}  // namespace quire::cuda
