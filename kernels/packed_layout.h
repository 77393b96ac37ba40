// The layout of a quantized weight in a Hopper GPU's memory. Plain values; host and device code. It
// needs no CUDA header, so plans can use it for a GPU that is not here.
//
// Weights of e4m3 whose x also becomes e4m3 (HasFloat8Tiles) consist of tiles of 64 rows x 128
// columns, one byte for each value; tiles of the same rows are next to each other. The 16-byte
// pieces in a row of a tile are permuted by the row's number modulo 8: gemms read both operands
// from shared memory, where wgmma expects them in this order (128-byte swizzle). Behind the tiles
// are the scales of groups, [num_steps, rows].
//
// Other weights are in the order in which the lanes of a warpgroup multiply them, so that each lane
// finds the codes for its gemms in one 16-byte piece. Blocks of 64 rows follow each other; a block
// is its steps of 128 columns; a step is four quarters, one for each warp of a warpgroup: the codes
// of 16 rows, the scales of each row's groups
// ([16, groups_per_step]), their zero points. Rows and columns beyond the weight's are padding.
//
// Codes of a quarter: lane 4 r + q has rows r and r + 8, and in each slice of 16 columns the
// columns 2q, 2q + 1, 2q + 8 and 2q + 9, which are its part of wgmma's first operand. 16 bytes of
// every lane are a piece: two slices of 8-bit codes, or four of 4-bit codes.
//   8 bits: each slice has one word for row r and one for row r + 8, each with columns 2q, 2q + 8,
//           2q + 1, 2q + 9 from its lowest byte on.
//   4 bits, integers: each slice has one word. Its bytes belong to rows r, r + 8, r, r + 8. The
//   first
//           two have columns 2q and 2q + 8 (the upper half), the others 2q + 1 and 2q + 9.
//   4 bits, floats: each two slices have one word for row r and one for row r + 8, a Float4Word of
//           four pairs: columns 2q and 2q + 1 of the first slice, then 2q + 8 and 2q + 9, then the
//           same of the second slice.
#pragma once

#include <cstdint>

#include "kernels/base/types.h"
#include "kernels/linear_weight.h"

namespace quire {

inline constexpr int kBlockRows = 64, kQuarterRows = 16, kStepColumns = 128, kSliceColumns = 16;
inline constexpr int kBlockStrips = kBlockRows / kQuarterRows;
inline constexpr int kStepSlices = kStepColumns / kSliceColumns;

// Whether scales are small factors, which a lane applies to the values before they are multiplied;
// the results are exact in 16 bits. Other scales are applied to the sums of a group.
constexpr bool HasScaledValues(const WeightFormat& format) {
  return format.value == WeightValue::kFloat4 && format.scale != ScaleValue::kFloat32;
}

// Scales that are powers of two are kept relative to the largest of their row, which is the row's
// scale: 2^(code - kLargestPower) with what 4-bit floats are lifted by; 0: nothing is left of its
// group. Rows with scales of e4m3 have theirs times 2^kFloat8ScaleShift.
inline constexpr int kLargestPower = 253, kFloat8ScaleShift = 7;

constexpr bool HasFloat8Tiles(const LinearWeight& weight) {
  return weight.format.value == WeightValue::kFloat8 &&
         weight.activations.value == ActivationValue::kFloat8;
}

// Where a row's line of 128 columns is among tiles.
constexpr int64_t TileLineAt(int64_t row, int64_t step, int64_t num_steps) {
  return ((row / kBlockRows * num_steps + step) * kBlockRows + row % kBlockRows) * kStepColumns;
}

struct PackedLayout {
  int64_t num_blocks, num_steps;
  int32_t bits;
  int32_t groups_per_step;                                     // 0: a row has one scale
  int32_t code_bytes, scale_bytes, zero_bytes, quarter_bytes;  // of a quarter
  int32_t step_bytes;
  int64_t row_scales_at;  // float32 [num_blocks * 64]: of rows, where they have one; else 0
  int64_t order_at;       // int32 [in_features], of an ordered weight; else 0
  int64_t total_bytes;

  explicit constexpr PackedLayout(const LinearWeight& weight)
      : PackedLayout(weight.format, weight.out_features, weight.in_features) {}
  constexpr PackedLayout(const WeightFormat& format, int64_t rows, int64_t columns)
      : num_blocks(CeilDiv<int64_t>(rows, kBlockRows)),
        num_steps(CeilDiv<int64_t>(columns, kStepColumns)),
        bits(BitsOf(format.value)),
        groups_per_step(format.group_columns == 0 ? 0 : kStepColumns / format.group_columns),
        code_bytes(kQuarterRows * kStepColumns * bits / 8),
        scale_bytes(kQuarterRows * groups_per_step * static_cast<int32_t>(BytesOf(format.scale))),
        zero_bytes(format.zero_points && groups_per_step > 0 ? kQuarterRows * groups_per_step : 0),
        quarter_bytes(code_bytes + scale_bytes + zero_bytes),
        step_bytes(4 * quarter_bytes),
        row_scales_at(0),
        order_at(0),
        total_bytes(num_blocks * num_steps * step_bytes) {
    if (groups_per_step == 0 || HasScaledValues(format)) {
      row_scales_at = total_bytes;
      total_bytes += num_blocks * kBlockRows * 4;
    }
    if (format.ordered) {
      order_at = total_bytes;
      total_bytes += columns * 4;
    }
  }

  // Of tiles: the rows, where 16 columns of one are, and where scales of groups are.
  constexpr int64_t num_rows() const { return num_blocks * kBlockRows; }
  constexpr int64_t PieceAt(int64_t row, int64_t step, int piece) const {
    return TileLineAt(row, step, num_steps) + (piece ^ (row % 8)) * 16;
  }
  constexpr int64_t tile_scales_at() const { return num_rows() * num_steps * kStepColumns; }

  // Where the row's quarter of a step is.
  constexpr int64_t QuarterAt(int64_t row, int64_t step) const {
    return (row / kBlockRows * num_steps + step) * step_bytes +
           row % kBlockRows / kQuarterRows * quarter_bytes;
  }
};

// Whether the kernels of cuda/gemm/quantized/ multiply such weights with activations of this type.
constexpr bool FitsPackedLayout(const WeightFormat& format, DType activations) {
  const int32_t columns = format.group_columns;
  const bool is_16_bits = activations == DType::kBF16 || activations == DType::kF16;
  if (!is_16_bits || !format.quantized()) return false;
  switch (format.value) {
    case WeightValue::kFloat8:
      return (columns == 0 || columns == kStepColumns) && format.scale == ScaleValue::kFloat32;
    case WeightValue::kFloat4:
      if (format.scale != ScaleValue::kPowerOfTwo) return columns == 16;
      return columns == 32 && activations == DType::kBF16;  // they do not fit float16
    default:
      if (columns == 0) return !format.zero_points;
      return columns == 32 || columns == 64 || columns == kStepColumns;
  }
}

// WeightStore::FormatFor of such a GPU. With experts' weights x is multiplied as it is, its columns
// in their own order.
constexpr LinearFormat PackedFormat(const LinearFormat& format, DType activations,
                                    bool has_experts) {
  if (!FitsPackedLayout(format.weight, activations)) return {};
  if (has_experts) return format.weight.ordered ? LinearFormat() : LinearFormat{format.weight};
  const bool is_float8 = format.activations.value == ActivationValue::kFloat8;
  return {format.weight, is_float8 ? format.activations : ActivationFormat()};
}

}  // namespace quire
