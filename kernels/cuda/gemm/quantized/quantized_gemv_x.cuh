// All threads of a gemv with a quantized weight (quantized_gemv.cuh) bring x, and the scales of
// tiles, to shared memory. Device code only.
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
  // For zeros and for numbers near the smallest, the scale is one that float32 has.
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

// Stores this lane's part of a step of a row.
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
class XBringer {
 public:
  __device__ XBringer(const QuantizedGemmParams& p, const QuantizedGemvShared<Shape>& shared,
                      const QuantizedGemvWork& work)
      : p_(p), shared_(shared), work_(work), step_(static_cast<int>(threadIdx.x) / kXLanes) {
    FindRow();
  }

  // Sends for the first pieces, once x is there.
  __device__ void Begin() {
    if (!IsFloat8()) Load();
  }
  // All of x is in shared memory once all threads have run it.
  __device__ void Run() {
    if (IsFloat8()) return BringFloat8X<Shape>(p_, shared_, work_);
    while (__any_sync(~0u, rows_[0] < work_.num_rows)) {
      Store();
      Load();
    }
  }

 private:
  static constexpr int kAtOnce = 2, kLines = Shape::kThreads / kXLanes;

  __device__ bool IsFloat8() const { return Shape::kFloat8Tiles && p_.x_scales != nullptr; }
  __device__ void FindRow() {
    for (; step_ >= work_.num_steps && row_ < work_.num_rows; ++row_) step_ -= work_.num_steps;
  }
  __device__ void Load() {
    const int column =
        work_.first_step * kStepColumns + static_cast<int>(threadIdx.x) % kXLanes * 8;
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      rows_[j] = row_, steps_[j] = step_, values_[j] = {};
      if (row_ < work_.num_rows) {
        values_[j] = LoadXPiece(p_, work_.XRow(p_, row_), column + step_ * kStepColumns);
      }
      step_ += kLines;
      FindRow();
    }
  }
  __device__ void Store() const {
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      if (!__any_sync(~0u, rows_[j] < work_.num_rows)) break;
      XPiece x = {values_[j], 0, 0};
      if constexpr (Shape::kFloat8Tiles) {
        x = ToFloat8<typename Shape::Element>(values_[j]);
      } else if constexpr (Shape::kRawInts) {
        x = ToScaledHalf<Shape>(values_[j], threadIdx.x % 2 == 1);
      }
      if (rows_[j] < work_.num_rows) StoreXPiece(shared_, rows_[j], steps_[j], x);
    }
  }

  const QuantizedGemmParams& p_;
  const QuantizedGemvShared<Shape>& shared_;
  const QuantizedGemvWork& work_;
  int row_ = 0, step_;  // what is loaded next
  // What is under way.
  uint4 values_[kAtOnce];
  int rows_[kAtOnce], steps_[kAtOnce];
};

}  // namespace quire::cuda
