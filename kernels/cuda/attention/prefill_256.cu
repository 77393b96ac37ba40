#include "kernels/cuda/attention/tiled_attention.cuh"

namespace quire::cuda {

TiledKernel PrefillKernel256() { return MakeTiledKernel<TileShape<256, 8, 1, 1, 2, 1>>(); }

}  // namespace quire::cuda
