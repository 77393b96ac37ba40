// Makes Float8Rows of x in 16 bits, where no operation before has made them. A launch that fails is
// left for cudaGetLastError. Used by the engine's thread.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/float8_rows.h"

namespace quire::cuda {

// From x [num_rows, columns] of 16-bit elements.
void LaunchQuantizeRows(const Tensor& x, const Float8Rows& rows, cudaStream_t stream);

}  // namespace quire::cuda
