// Brings rows that lie anywhere in host memory to a weight, as a reader of files does it: through
// staging memory, a piece at a time.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>

#include "kernels/base/status_macros.h"
#include "kernels/weight_store.h"

namespace quire {

// Loads `rows` (host memory without gaps) into a weight through staging memory that takes
// `max_rows` of them at a time.
inline absl::Status LoadRows(WeightStore& store, const LinearWeight& weight, int64_t first_row,
                             const Tensor& rows, int64_t max_rows) {
  const int64_t row_size = rows.num_elements() / std::max<int64_t>(1, rows.dim(0));
  const int64_t row_bytes = row_size * DTypeBytes(rows.dtype());
  ASSIGN_OR_RETURN(const std::unique_ptr<RowLoader> loader,
                   store.CreateLoader(max_rows * row_size * int64_t{sizeof(float)}));
  for (int64_t row = 0; row < rows.dim(0); row += max_rows) {
    const int64_t count = std::min(max_rows, rows.dim(0) - row);
    ASSIGN_OR_RETURN(void* const staging, loader->Staging());
    std::memcpy(staging, static_cast<const char*>(rows.data()) + row * row_bytes,
                count * row_bytes);
    RETURN_IF_ERROR(
        loader->Load(weight, first_row + row, Tensor(staging, rows.dtype(), {count, row_size})));
  }
  return loader->Finish();
}
inline absl::Status LoadRows(WeightStore& store, const LinearWeight& weight, int64_t first_row,
                             const Tensor& rows) {
  return LoadRows(store, weight, first_row, rows, std::max<int64_t>(1, rows.dim(0)));
}

}  // namespace quire
