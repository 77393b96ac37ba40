#include "kernels/cuda/attention/tiled_attention.cuh"

namespace quire::cuda {

TiledKernel PrefillKernel128() { return MakeTiledKernel<TileShape<128, 4, 1, 2, 2, 2>>(); }

}  // namespace quire::cuda
