#include "kernels/cuda/attention/hopper/hopper_attention.cuh"

namespace quire::cuda {

TiledKernel Float8GemmsPrefillKernel() { return MakeFloat8GemmsKernel<128>(); }

}  // namespace quire::cuda
