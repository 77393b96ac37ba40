// A grid of CTAs over the elements of rows, a thread per pack of `width` elements.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/base/types.h"

namespace quire::cuda {

constexpr int kRowGridThreads = 256;

// A CTA column for each num_threads packs of a row; rows are taken in turn beyond the grid's
// height.
inline dim3 RowGrid(int64_t num_rows, int64_t row_size, int width,
                    int num_threads = kRowGridThreads) {
  const int64_t num_packs = CeilDiv<int64_t>(row_size, width);
  return dim3(static_cast<unsigned>(CeilDiv<int64_t>(num_packs, num_threads)),
              static_cast<unsigned>(std::min<int64_t>(num_rows, 65535)));
}

// This thread's first element of a row.
__device__ inline int64_t FirstElement(int width, int num_threads = kRowGridThreads) {
  return (static_cast<int64_t>(blockIdx.x) * num_threads + threadIdx.x) * width;
}

}  // namespace quire::cuda
