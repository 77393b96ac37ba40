// QuantizeToFloat8: rows of floats as e4m3 with scales, for weights that are quantized while they
// are loaded. Used while loading; by any number of threads, each with its own rows.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/weight_format.h"
#include "kernels/weight_store.h"

namespace quire {

// e4m3 codes of rows, a scale for each group of a row's columns.
struct Float8Codes {
  std::vector<uint8_t> codes;  // [num_rows, num_columns]
  std::vector<float> scales;   // [num_rows, num_groups]
};

// `rows`: [num_rows, num_columns]; `format`: kFloat8 with scales of float32. A group's scale is
// max|x| / 448, so that its largest value becomes the largest of e4m3; 1 where all are 0. Returns
// false when a value is no finite number; then `out` has no meaning.
bool QuantizeToFloat8(const WeightFormat& format, const float* rows, int64_t num_rows,
                      int64_t num_columns, Float8Codes* out);

}  // namespace quire
