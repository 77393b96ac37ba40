// Some of a matrix's columns, as a matrix.
#pragma once

#include <cstdint>

#include "kernels/base/check.h"
#include "kernels/base/tensor.h"

namespace quire {

inline Tensor Columns(const Tensor& matrix, int64_t first, int64_t count) {
  CHECK(matrix.rank() == 2 && first >= 0 && count >= 0 && count <= matrix.dim(1) - first);
  char* data = static_cast<char*>(matrix.data()) + first * DTypeBytes(matrix.dtype());
  return Tensor(data, matrix.dtype(), {matrix.dim(0), count}).WithRowStride(matrix.row_stride());
}

}  // namespace quire
