// The kernels of expert_gemm.cuh by what they are compiled for. Host code of CUDA sources.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace quire::cuda {

struct ExpertGemmParams;

struct ExpertKernel {
  void (*launch)(ExpertGemmParams);
  int num_threads;
  int half_features;  // of the weight's rows of a tile
  int columns;        // of results
  int out_rows;       // a box of x
  int shared_bytes;
};

// Tiles of kFeatures of the weight's rows, of kWarpgroups * 64 of an expert's.
template <typename Element, int kFeatures, int kWarpgroups>
ExpertKernel ExpertKernelFor(bool is_gated);

}  // namespace quire::cuda
