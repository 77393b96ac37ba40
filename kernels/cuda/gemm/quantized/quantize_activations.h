// x as it is multiplied where ActivationValue::kFloat8 says so. A launch that fails is left for
// cudaGetLastError. Used by the engine's thread.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/base/types.h"
#include "kernels/packed_layout.h"

namespace quire::cuda {

// Rows of e4m3; behind them the scales of each 128 columns, [steps, rows].
struct Float8Rows {
  int64_t num_rows, num_steps;
  uint8_t* data = nullptr;

  constexpr int64_t row_bytes() const { return num_steps * kStepColumns; }
  // Of a row of scales: gemms read those of a tile's rows, which may be more.
  constexpr int64_t scale_stride() const { return RoundUp<int64_t>(num_rows, 128); }
  constexpr int64_t scales_at() const { return num_rows * row_bytes(); }
  constexpr int64_t total_bytes() const { return scales_at() + num_steps * scale_stride() * 4; }
  // What fits so many bytes.
  static constexpr int64_t MaxRows(int64_t bytes, int64_t num_steps) {
    return (bytes - num_steps * 127 * 4) / (num_steps * (kStepColumns + 4));
  }
  float* scales() const { return reinterpret_cast<float*>(data + scales_at()); }
};

static_assert(Float8Rows{.num_rows = Float8Rows::MaxRows(1 << 20, 8), .num_steps = 8}
                  .total_bytes() <= 1 << 20);

// From x [num_rows, columns] of 16-bit elements; columns beyond its last one are zeros.
void LaunchQuantizeRows(const Tensor& x, const Float8Rows& rows, cudaStream_t stream);

}  // namespace quire::cuda
