// The kernels of quantized_gemm.cuh by what they are compiled for. Host code of CUDA sources.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/weight_format.h"

namespace quire::cuda {

struct QuantizedGemmParams;

// The tiles of x's rows that there are kernels for.
inline constexpr int kQuantizedTileRows[] = {8, 16, 32, 64, 128};

struct QuantizedKernel {
  void (*launch)(QuantizedGemmParams);
  int num_threads;
  int (*shared_bytes)(int step_bytes, int num_stages);
  int max_stages;
};

// That of a number in kQuantizedTileRows. kGemms is kMaxGemmsAtOnce where a scale is for 128
// columns, or for a row, or applied to values; else the columns of a group (16, or at least 32)
// over 16.
template <WeightValue kValue, typename Element, int kGemms>
QuantizedKernel QuantizedKernelFor(int tile);

}  // namespace quire::cuda
