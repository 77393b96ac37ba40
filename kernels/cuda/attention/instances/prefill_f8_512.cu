#include "kernels/cuda/attention/tiled_attention.cuh"

namespace quire::cuda {

template TiledKernel Float8PrefillKernel<512>();

}  // namespace quire::cuda
