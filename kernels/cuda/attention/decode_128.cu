#include "kernels/cuda/attention/tiled_attention.cuh"

namespace quire::cuda {

TiledKernel DecodeKernel128() { return MakeTiledKernel<TileShape<128, 1, 4, 1, 2, 3>>(); }

}  // namespace quire::cuda
