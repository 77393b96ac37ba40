// LargeKernelFor, which the files of instances/ instantiate.
#pragma once

#include "kernels/cuda/gemm/hopper/large_gemm.cuh"
#include "kernels/cuda/gemm/hopper/large_gemm_kernels.h"

namespace quire::cuda {

template <typename Element, bool kIsFloat8, int kFeatures, int kWarpgroups>
LargeKernel LargeKernelFor() {
  using Shape = LargeGemmShape<Element, kFeatures, kIsFloat8, kWarpgroups>;
  return {.launch = LargeGemm<Shape>,
          .num_threads = Shape::kThreads,
          .tile_rows = Shape::kTileRows,
          .shared_bytes = Shape::kSharedBytes};
}

}  // namespace quire::cuda
