// How row-wise operations are shared among threads. Any thread.
#pragma once

#include <algorithm>
#include <cstdint>

namespace quire::cpu {

// Rows whose elements take about as long as waking a thread.
inline int64_t RowsPerRange(int64_t row_size) {
  constexpr int64_t kElementsPerRange = 32 * 1024;
  return std::max<int64_t>(1, kElementsPerRange / row_size);
}

}  // namespace quire::cpu
