// What all threads of a gemv with a quantized weight (quantized_gemv.cuh) bring to shared memory:
// x, and the scales of tiles. Device code only.
#pragma once

#include "kernels/cuda/gemm/quantized/quantized_gemv_shape.cuh"
#include "kernels/cuda/runtime/float8.cuh"
#include "kernels/cuda/runtime/float8_rows.cuh"

namespace quire::cuda {

inline constexpr int kXLanes = kStepColumns / 8;  // of a step of a row of x, each eight columns

// Eight columns of x as they are multiplied, and what belongs to them.
struct XPiece {
  uint4 values;
  float scale;  // of their step
  float sum;    // of their group
};

// From 16 lanes that have the columns of a step of the same row: x rounded to e4m3 times a scale
// (float8_rows.h); the numbers of e4m3 come as float16. The whole warp.
template <typename Element>
__device__ XPiece ToFloat8(const uint4& values) {
  float x[8], most = 0;
  Load(reinterpret_cast<const Element*>(&values), x);
#pragma unroll
  for (const float value : x) most = fmaxf(most, fabsf(value));
  const XScale scale(MaxOfLineLanes(most));
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    words[i] = WidenPair<__NV_E4M3>(NarrowPair<__NV_E4M3>(scale(x[2 * i]), scale(x[2 * i + 1])));
  }
  return {{words[0], words[1], words[2], words[3]}, scale.scale, 0};
}

// The same for raw integers: x divided by a power of two, so that the largest number of the step is
// between 2^14 and 2^15, and the sums of groups of it, which are multiplied with zero points as
// 2^-24 and its multiples. The codes of four bits of a slice's upper
// half are 16 times as large (operands.cuh), for which x makes up. The whole warp.
template <typename Shape>
__device__ XPiece ToScaledHalf(const uint4& values, bool is_upper_half) {
  float x[8], most = 0, sum = 0;
  Load(reinterpret_cast<const typename Shape::Element*>(&values), x);
#pragma unroll
  for (const float value : x) most = fmaxf(most, fabsf(value));
  // Of zeros and of numbers near the smallest the scale is one that float32 has.
  const uint32_t exponent = max(__float_as_uint(MaxOfLineLanes(most)) >> 23, 16u);
  const float inverse = __uint_as_float((268 - exponent) << 23);
#pragma unroll
  for (float& value : x) sum += value *= inverse;
#pragma unroll
  for (int other = kXLanes / Shape::kXSums / 2; other > 0; other /= 2) {
    sum += __shfl_xor_sync(~0u, sum, other);
  }
  const float factor = Shape::kBits == 4 && is_upper_half ? 0x1p-4f : 1;
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = PackPair<__half>(x[2 * i] * factor, x[2 * i + 1] * factor);
  return {{words[0], words[1], words[2], words[3]},
          __uint_as_float((exponent - 14) << 23),
          sum * 0x1p-24f};
}

// Eight columns of x from `column` on; zeros beyond the last one.
__device__ inline uint4 LoadXPiece(const QuantizedGemmParams& p, int row, int column) {
  const uint16_t* const from = p.x + row * p.x_stride + column;
  if (column + 8 <= p.num_columns) return *reinterpret_cast<const uint4*>(from);
  uint32_t words[4] = {};
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    if (column + j < p.num_columns) words[j / 2] |= uint32_t{from[j]} << j % 2 * 16;
  }
  return {words[0], words[1], words[2], words[3]};
}

// The same of Float8Rows, widened: all threads bring 16 columns at a time.
template <typename Shape>
__device__ void BringFloat8X(const QuantizedGemmParams& p, const QuantizedGemvShared<Shape>& shared,
                             const QuantizedGemvWork& work) {
  const auto* const rows = reinterpret_cast<const uint8_t*>(p.x);
  constexpr int kPieceColumns = 16, kStepPieces = kStepColumns / kPieceColumns;
  const int pieces = work.num_steps * kStepPieces;
  int row = 0, piece = static_cast<int>(threadIdx.x);
  for (;; piece += Shape::kThreads) {
    for (; piece >= pieces; piece -= pieces) {
      if (++row >= p.num_rows) return;
    }
    const int step = piece / kStepPieces;
    const uint4 codes = *reinterpret_cast<const uint4*>(
        rows + row * p.x_stride + work.first_step * kStepColumns + piece * kPieceColumns);
    uint4 low, high;
    WidenQuad<__NV_E4M3>(codes.x, low.x, low.y);
    WidenQuad<__NV_E4M3>(codes.y, low.z, low.w);
    WidenQuad<__NV_E4M3>(codes.z, high.x, high.y);
    WidenQuad<__NV_E4M3>(codes.w, high.z, high.w);
    StoreShared16(shared.x(row) + piece * 32, low);
    StoreShared16(shared.x(row) + piece * 32 + 16, high);
    if (piece % kStepPieces == 0) {
      const int64_t at = static_cast<int64_t>(work.first_step + step) * p.x_scale_stride + row;
      StoreShared4(shared.x_scales(step) + row * 4, __float_as_uint(p.x_scales[at]));
    }
  }
}

// Of a step of a row, this lane's part.
template <typename Shape>
__device__ void StoreXPiece(const QuantizedGemvShared<Shape>& shared, int row, int step,
                            const XPiece& x) {
  const int piece = static_cast<int>(threadIdx.x) % kXLanes;
  if constexpr (Shape::kScalesX) {
    if (piece == 0) StoreShared4(shared.x_scales(step) + row * 4, __float_as_uint(x.scale));
  }
  if constexpr (Shape::kXSums > 0) {
    constexpr int kGroupLanes = kXLanes / Shape::kXSums;
    if (piece % kGroupLanes == 0) {
      StoreShared4(shared.x_sums(step, piece / kGroupLanes) + row * 4, __float_as_uint(x.sum));
    }
  }
  StoreShared16(shared.x(row) + step * kStepColumns * 2 + piece * 16, x.values);
}

// All threads bring the CTA's columns of x to shared memory, 16 lanes a step of a row, some of them
// at a time, whose loads are under way together.
template <typename Shape>
__device__ void BringX(const QuantizedGemmParams& p, const QuantizedGemvShared<Shape>& shared,
                       const QuantizedGemvWork& work) {
  if constexpr (Shape::kFloat8Tiles) {
    if (p.x_scales != nullptr) return BringFloat8X<Shape>(p, shared, work);
  }
  constexpr int kAtOnce = 2, kLines = Shape::kThreads / kXLanes;
  const int column = static_cast<int>(threadIdx.x) % kXLanes * 8;
  int row = 0, step = static_cast<int>(threadIdx.x) / kXLanes;
  const auto find_row = [&](int& row, int& step) {
    for (; step >= work.num_steps && row < work.num_rows; ++row) step -= work.num_steps;
  };
  find_row(row, step);
  while (__any_sync(~0u, row < work.num_rows)) {
    uint4 values[kAtOnce] = {};
    int rows[kAtOnce], steps[kAtOnce];
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      rows[j] = row, steps[j] = step;
      if (row < work.num_rows) {
        values[j] =
            LoadXPiece(p, work.first_row + row, (work.first_step + step) * kStepColumns + column);
      }
      step += kLines;
      find_row(row, step);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (!__any_sync(~0u, rows[j] < work.num_rows)) break;
      XPiece x = {values[j], 0, 0};
      if constexpr (Shape::kFloat8Tiles) {
        x = ToFloat8<typename Shape::Element>(values[j]);
      } else if constexpr (Shape::kRawInts) {
        x = ToScaledHalf<Shape>(values[j], threadIdx.x % 2 == 1);
      }
      if (rows[j] < work.num_rows) StoreXPiece(shared, rows[j], steps[j], x);
    }
  }
}

}  // namespace quire::cuda
