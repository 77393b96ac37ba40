// Fields of a few bits in 32-bit words, low bits first, as all packages write them: field i begins
// at bit i * bits, and if a word ends within it, it continues in the next word. For the sources of
// this folder.
#pragma once

#include <cstdint>
#include <cstring>

#include "engine/model/quantization/weight_scheme.h"

namespace quire {

// Whether values, scales and zero points are [columns, rows].
inline bool IsTransposed(WeightPacking packing) {
  return packing == WeightPacking::kGptq || packing == WeightPacking::kAwq;
}

// A field of neighbouring words. They are little-endian, so the fields lie in the bytes as in the
// words. Reads only bytes that the field touches.
inline uint32_t FieldAlong(const uint8_t* words, int64_t index, int bits) {
  const int64_t bit = index * bits;
  const int64_t byte = bit / 8;
  const int shift = static_cast<int>(bit % 8);
  uint32_t value = words[byte];
  if (shift + bits > 8) value |= static_cast<uint32_t>(words[byte + 1]) << 8;
  return value >> shift & ((1u << bits) - 1);
}

// A field of the words in one column of a matrix that is `columns` words wide.
inline uint32_t FieldDown(const uint8_t* words, int64_t columns, int64_t column, int64_t index,
                          int bits) {
  const int64_t bit = index * bits;
  const auto word_at = [&](int64_t row) {
    uint32_t word;
    std::memcpy(&word, words + (row * columns + column) * 4, 4);
    return word;
  };
  const int64_t row = bit / 32;
  const int shift = static_cast<int>(bit % 32);
  uint64_t value = word_at(row);
  if (shift + bits > 32) value |= static_cast<uint64_t>(word_at(row + 1)) << 32;
  return static_cast<uint32_t>(value >> shift) & ((1u << bits) - 1);
}

// The eight four-bit fields of a word, a byte each, the lowest first.
inline uint64_t BytesOfNibbles(uint32_t word) {
  uint64_t bytes = word;
  bytes = (bytes | bytes << 16) & 0x0000ffff0000ffffu;
  bytes = (bytes | bytes << 8) & 0x00ff00ff00ff00ffu;
  return (bytes | bytes << 4) & 0x0f0f0f0f0f0f0f0fu;
}

// The field in which AWQ stores the i-th of eight neighbouring rows: a word has eight fields, the
// even rows first.
inline int64_t AwqField(int64_t row) {
  constexpr int kFields[] = {0, 4, 1, 5, 2, 6, 3, 7};
  return row / 8 * 8 + kFields[row % 8];
}

}  // namespace quire
