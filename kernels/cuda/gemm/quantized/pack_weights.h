// From codes, scales and zero points by row to PackedLayout. A launch that fails is left for
// cudaGetLastError. Any thread with a stream of its own.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/weight_store.h"

namespace quire::cuda {

// Rows [first_row, first_row + rows.num_rows) of the weight from `rows`, which are in device
// memory. Threads may do so side by side with disjoint rows.
void LaunchPackRows(const LinearWeight& weight, int64_t first_row, const QuantizedRows& rows,
                    cudaStream_t stream);

// All of it at random, as the CPU does it.
void LaunchFillQuantized(const LinearWeight& weight, const FillWeightArgs& args,
                         cudaStream_t stream);

// out[row, i] = x[row, order[i]], of 16-bit elements; without an order as they are.
void LaunchOrderColumns(const Tensor& x, const int32_t* order, const Tensor& out,
                        cudaStream_t stream);

}  // namespace quire::cuda
