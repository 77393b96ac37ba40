// Rows of activations as quantized weights are multiplied with: as float32, or rounded to int8.
// Plain functions; any thread.
#pragma once

#include <cstdint>

#include "kernels/base/tensor.h"
#include "kernels/cpu/gemm/quantized/quantized_panel.h"

namespace quire::cpu {

// A row of x, float32 or bfloat16, as float32 in the weight's order of columns, each group padded
// with zeros: [padded_columns].
void ReadRow(const Tensor& x, int64_t row, const QuantizedLayout& layout, const int32_t* order,
             float* out);

// Codes of a row, 128 more than their values, each kInt8BlockBytes of them `stride` bytes after
// those before; returns what they are multiplied with.
float RoundToInt8(const float* row, int64_t columns, int64_t stride, uint8_t* out);

}  // namespace quire::cpu
