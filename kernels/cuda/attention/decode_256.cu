#include "kernels/cuda/attention/tiled_attention.cuh"

namespace quire::cuda {

TiledKernel DecodeKernel256() { return MakeTiledKernel<TileShape<256, 1, 4, 1, 3, 1>>(); }

}  // namespace quire::cuda
