// Codes of weights on their way to a backend (QuantizedRows): one byte for each code; 4-bit codes
// are two in a byte, and the even column has the low half. Host and device code.
#pragma once

#include <cstdint>

#include "kernels/weight_format.h"

namespace quire {

constexpr int64_t CodeRowBytes(WeightValue value, int64_t num_columns) {
  return BitsOf(value) == 4 ? (num_columns + 1) / 2 : num_columns;
}

// The bytes of a row of codes.
constexpr uint8_t CodeAt(WeightValue value, const uint8_t* row, int64_t column) {
  if (BitsOf(value) == 8) return row[column];
  return static_cast<uint8_t>(row[column / 2] >> column % 2 * 4 & 0xf);
}

// Makes a row of codes that have a byte each.
constexpr void PackCodes(WeightValue value, const uint8_t* codes, int64_t num_columns,
                         uint8_t* row) {
  const bool is_pair = BitsOf(value) == 4;
  for (int64_t i = 0; i < CodeRowBytes(value, num_columns); ++i) {
    row[i] = is_pair ? codes[2 * i] : codes[i];
    if (is_pair && 2 * i + 1 < num_columns) {
      row[i] = static_cast<uint8_t>(row[i] | codes[2 * i + 1] << 4);
    }
  }
}

}  // namespace quire
