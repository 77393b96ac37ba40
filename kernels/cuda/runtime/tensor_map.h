// How a tensor in device memory is described to TMA. Any thread, once a device has been opened.
#pragma once

#include <cuda.h>

#include <array>
#include <cstdint>

#include "kernels/base/tensor.h"

namespace quire::cuda {

// The innermost dimension comes first; its elements follow each other.
template <int kRank>
struct TensorMapShape {
  std::array<uint64_t, kRank> sizes;
  std::array<uint64_t, kRank - 1> strides_bytes;  // of the others; multiples of 16
  std::array<uint32_t, kRank> box;                // what one copy takes, in elements
};

// For a 16-bit or 8-bit type. Swizzled boxes lie in shared memory with the 16-byte pieces of a
// line, of 64 or 128 bytes, permuted by the line's number; other boxes lie as they are. The part of
// a box outside of the tensor is zeros.
CUtensorMap EncodeTensorMap(const void* data, DType dtype, const TensorMapShape<4>& shape,
                            bool swizzled);

// Rows of 16-bit elements, in swizzled boxes of `box_rows` lines of 64 elements.
CUtensorMap EncodeMatrixMap(const void* data, DType dtype, int64_t rows, int64_t columns,
                            int64_t row_stride, int box_rows);

// The same of rows of `row_bytes` bytes that follow each other, in lines of 128.
CUtensorMap EncodeFloat8MatrixMap(const void* data, int64_t rows, int64_t row_bytes, int box_rows);

}  // namespace quire::cuda
