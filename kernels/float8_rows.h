// Float8Rows: activations as ActivationValue::kFloat8 has them, which RmsNorm makes of what it
// norms, and a GPU's gemms of x in 16 bits. As a tensor they are of kF8E4M3, [rows, columns], and
// their scales follow the last row. Plain values; any thread.
#pragma once

#include <cstdint>

#include "kernels/base/tensor.h"
#include "kernels/base/types.h"
#include "kernels/packed_layout.h"

namespace quire {

// Rows of e4m3, in lines of 128 columns, the last one filled up with zeros; behind them the scales
// of the lines, float32 [lines, scale_stride()].
struct Float8Rows {
  static constexpr int64_t kLineColumns = kStepColumns;

  int64_t num_rows, num_lines;
  uint8_t* data = nullptr;

  Float8Rows(int64_t num_rows, int64_t num_columns, void* data)
      : num_rows(num_rows),
        num_lines(CeilDiv<int64_t>(num_columns, kLineColumns)),
        data(static_cast<uint8_t*>(data)) {}
  explicit Float8Rows(const Tensor& rows) : Float8Rows(rows.dim(0), rows.dim(1), rows.data()) {
    CHECK(rows.dtype() == DType::kF8E4M3) << DTypeName(rows.dtype());
  }

  Tensor tensor() const { return Tensor(data, DType::kF8E4M3, {num_rows, row_bytes()}); }
  constexpr int64_t row_bytes() const { return num_lines * kLineColumns; }
  // Gemms read the scales of a tile's rows, which may be more than there are.
  constexpr int64_t scale_stride() const { return RoundUp<int64_t>(num_rows, kWholeTiles); }
  constexpr int64_t scales_at() const { return num_rows * row_bytes(); }
  float* scales() const { return reinterpret_cast<float*>(data + scales_at()); }
  int64_t size_bytes() const { return scales_at() + num_lines * scale_stride() * 4; }

  // The most bytes that num_rows rows, or fewer, take.
  static int64_t MaxBytes(int64_t num_rows, int64_t num_columns) {
    return Float8Rows(num_rows, num_columns, nullptr).size_bytes();
  }
  // The number of rows that fit into `bytes`.
  static int64_t MaxRows(int64_t bytes, int64_t num_columns) {
    const int64_t num_lines = CeilDiv<int64_t>(num_columns, kLineColumns);
    return (bytes - num_lines * (kWholeTiles - 1) * 4) / (num_lines * (kLineColumns + 4));
  }

 private:
  static constexpr int64_t kWholeTiles = 384;  // rows: a multiple of every kernel's tile
};

// What RmsNorm makes for a linear operation with this weight: kF8E4M3, or the activations' dtype.
inline DType NormedDType(const LinearWeight& weight) {
  const bool is_float8 = weight.activations.value == ActivationValue::kFloat8;
  return is_float8 && weight.in_features % Float8Rows::kLineColumns == 0 ? DType::kF8E4M3
                                                                         : weight.dtype;
}

}  // namespace quire
