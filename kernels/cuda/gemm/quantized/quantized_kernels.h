// The kernels of quantized_gemm.cuh and quantized_gemv.cuh by what they are compiled for. Host code
// of CUDA sources.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/weight_format.h"

namespace quire::cuda {

struct QuantizedGemmParams;

// The tiles of x's rows that there are kernels for.
inline constexpr int kQuantizedTileRows[] = {8, 16, 32, 64, 128, 256};
inline constexpr int kMaxFewRows = 16;  // of a tile that warps compute by themselves
inline constexpr int kMaxQuantizedGemvRows = 8;
inline constexpr int kGemvWarps = 16, kGemvWarpStrips = 2;

struct QuantizedKernel {
  void (*launch)(QuantizedGemmParams);
  int num_threads;
  int num_blocks;  // of the weight, in a tile; 0: as many strips as the gemv is told
  // For a gemv: the bytes that a warp has of a step, and the bytes of the sums of a tile.
  int (*stage_bytes)(int step_bytes);
  int (*sums_bytes)(int num_strips, int num_rows);
  // num_rows and num_steps are those of x, which only gemvs have in shared memory as a whole.
  int (*shared_bytes)(int step_bytes, int num_stages, int num_rows, int num_steps, int num_strips);
  int max_stages;
};

// That of a number in kQuantizedTileRows, without a launch where there is none: sums of groups that
// are scaled leave no registers for the largest. There is one gemv, of up to kMaxQuantizedGemvRows.
// kGroups: groups of a step whose sums are scaled; or one of those below, whose values are.
inline constexpr int kPowerScaledGroups = -4, kFloat8ScaledGroups = -8;
template <WeightValue kValue, typename Element, int kGroups>
QuantizedKernel QuantizedKernelFor(int tile, bool is_gemv);

// The gemv of weights that are tiles (HasFloat8Tiles).
template <typename Element, int kGroups>
QuantizedKernel Float8GemvFor();

}  // namespace quire::cuda
