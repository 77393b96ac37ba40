// The kernels of large_gemm.cuh by what they are compiled for. Host code of CUDA sources.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace quire::cuda {

struct LargeGemmParams;

struct LargeKernel {
  void (*launch)(LargeGemmParams);
  int num_threads;
  int tile_rows;  // of x
  int shared_bytes;
};

// Of e4m3, or of elements of 16 bits. kFeatures: of the weight's rows a tile. kWarpgroups: that
// compute, 64 rows of x each.
template <typename Element, bool kIsFloat8, int kFeatures, int kWarpgroups>
LargeKernel LargeKernelFor();

}  // namespace quire::cuda
