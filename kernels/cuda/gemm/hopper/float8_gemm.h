// The differences between gemms of 16 bits and gemms of e4m3 by e4m3, for code that launches them.
// Host code of CUDA sources.
#pragma once

#include <cuda.h>

#include "kernels/cuda/gemm/hopper/float8_lines.cuh"
#include "kernels/op_args.h"

namespace quire::cuda {

// The operands in boxes of lines of 128 bytes, of which x has boxes of x_rows, the weight of
// weight_rows where it is of 16 bits. With weights that are HasFloat8Tiles x is a tensor of kF8E4M3
// (Float8Rows).
struct GemmMaps {
  CUtensorMap weight, x;
};
GemmMaps MapsOf(const LinearArgs& args, int weight_rows, int x_rows);
// All null for weights of 16 bits.
Float8Matrices Float8MatricesOf(const LinearArgs& args);
// Lines of in_features.
int NumLines(const LinearWeight& weight);

// Whether such gemms can be computed: x may still be of 16 bits.
bool FitsTensorMaps(const LinearArgs& args);

}  // namespace quire::cuda
