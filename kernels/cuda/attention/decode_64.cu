#include "kernels/cuda/attention/tiled_attention.cuh"

namespace quire::cuda {

TiledKernel DecodeKernel64() { return MakeTiledKernel<TileShape<64, 1, 4, 1, 4, 3>>(); }

}  // namespace quire::cuda
