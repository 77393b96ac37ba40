#include "kernels/cuda/attention/tiled_attention.cuh"

namespace quire::cuda {

TiledKernel PrefillKernel64() { return MakeTiledKernel<TileShape<64, 4, 1, 2, 2, 2>>(); }

}  // namespace quire::cuda
