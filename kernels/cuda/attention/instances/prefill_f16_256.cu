#include "kernels/cuda/attention/tiled_attention.cuh"

namespace quire::cuda {

template TiledKernel PrefillKernel<__half, 256>();

}  // namespace quire::cuda
