// How gemvs of quantized weights (quantized_gemv.cuh) use shared memory, and what all threads of a
// CTA bring there: x, and the scales of tiles. Device code only.
#pragma once

#include <type_traits>

#include "kernels/cuda/gemm/quantized/quantized_gemm_shape.cuh"
#include "kernels/cuda/runtime/float8.cuh"
#include "kernels/cuda/runtime/float8_rows.cuh"

namespace quire::cuda {

template <WeightValue kWeightValue, typename ElementType, int kTileRowsOfX, int kGroupsOfStep,
          bool kIsTiles = false>
struct QuantizedGemvShape
    : QuantizedShape<kWeightValue, ElementType, kTileRowsOfX, kGroupsOfStep, kIsTiles> {
  static constexpr int kRows = kTileRowsOfX;
  static constexpr int kBlocks = 2;
  static constexpr int kTileFeatures = kBlocks * kBlockRows;
  static constexpr int kStripWarps = kTileFeatures / kQuarterRows;  // that have all rows
  static constexpr int kWarps =
      2 * kStripWarps;  // the second half has the second half of the steps
  static constexpr int kComputeThreads = kWarps * 32;
  static constexpr int kThreads = kComputeThreads;
  static constexpr int kCtasPerSm = 2;
  static constexpr int kMaxStages = 16;
  static constexpr int kMbarrierBytes = kWarps * kMaxStages * 8;
  static constexpr int kSumsStride = kTileFeatures + 4;
  static constexpr int kSumsBytes = kRows * kSumsStride * 4;
  static constexpr int kRowGap = 16;  // between rows of x: keeps banks apart
  // Tiles and their x are multiplied as float16, which holds e4m3 exactly.
  using Factor = std::conditional_t<kIsTiles, __half, ElementType>;
  static constexpr int kXScaleBytes = kIsTiles ? kRows * 4 : 0;  // of a step
  // The scales of a step of the CTA's rows, which lie apart from the codes.
  static constexpr int kScaleBytes = kIsTiles && kGroupsOfStep > 0 ? kTileFeatures * 4 : 0;

  // What a warp has of a step.
  static constexpr int StageBytes(int step_bytes) { return step_bytes / 4; }
  static constexpr int SharedBytes(int step_bytes, int num_stages, int num_rows, int num_steps) {
    return kMbarrierBytes + kWarps * num_stages * StageBytes(step_bytes) + kSumsBytes +
           num_steps * (kScaleBytes + kXScaleBytes) +
           num_rows * (num_steps * kStepColumns * 2 + kRowGap);
  }
};

template <typename Shape>
struct QuantizedGemvShared {
  uint32_t mbarriers;
  int num_steps, num_stages, stage_bytes, x_stride;

  __device__ QuantizedGemvShared(uint8_t* raw, const QuantizedGemmParams& p, int num_steps)
      : mbarriers(SharedAddress(raw)),
        num_steps(num_steps),
        num_stages(p.num_stages),
        stage_bytes(Shape::StageBytes(p.step_bytes)),
        x_stride(num_steps * kStepColumns * 2 + Shape::kRowGap) {}

  __device__ uint32_t full(int warp, int stage) const {
    return mbarriers + (warp * Shape::kMaxStages + stage) * 8;
  }
  __device__ uint32_t stage(int warp, int stage) const {
    return mbarriers + Shape::kMbarrierBytes + (warp * num_stages + stage) * stage_bytes;
  }
  __device__ uint32_t sums(int row, int feature) const {
    return stage(Shape::kWarps, 0) + (row * Shape::kSumsStride + feature) * 4;
  }
  // Of tiles: the scales of a step's rows, and of x's rows.
  __device__ uint32_t scales(int step) const {
    return stage(Shape::kWarps, 0) + Shape::kSumsBytes + step * Shape::kScaleBytes;
  }
  __device__ uint32_t x_scales(int step) const {
    return scales(num_steps) + step * Shape::kXScaleBytes;
  }
  __device__ uint32_t x(int row) const { return x_scales(num_steps) + row * x_stride; }
};

// Eight columns of x rounded to e4m3 times a scale, of 16 lanes that have those of a step of the
// same row (float8_rows.h): the numbers of e4m3 come as float16. The whole warp.
template <typename Element>
__device__ uint4 ToFloat8(const uint4& values, float& x_scale) {
  float x[8], most = 0;
  Load(reinterpret_cast<const Element*>(&values), x);
#pragma unroll
  for (const float value : x) most = fmaxf(most, fabsf(value));
  const XScale scale(MaxOfLineLanes(most));
  x_scale = scale.scale;
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    words[i] = WidenPair<__NV_E4M3>(NarrowPair<__NV_E4M3>(scale(x[2 * i]), scale(x[2 * i + 1])));
  }
  return {words[0], words[1], words[2], words[3]};
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
                             const QuantizedGemmWork& work) {
  const auto* const rows = reinterpret_cast<const uint8_t*>(p.x);
  const int first = work.first_step * kStepColumns;
  const int pieces = shared.num_steps * kStepColumns / 16;
  for (int i = static_cast<int>(threadIdx.x); i < pieces * p.num_rows; i += Shape::kThreads) {
    const int row = i / pieces, piece = i % pieces;
    const uint4 codes =
        *reinterpret_cast<const uint4*>(rows + row * p.x_stride + first + piece * 16);
    uint4 low, high;
    WidenQuad<__NV_E4M3>(codes.x, low.x, low.y);
    WidenQuad<__NV_E4M3>(codes.y, low.z, low.w);
    WidenQuad<__NV_E4M3>(codes.z, high.x, high.y);
    WidenQuad<__NV_E4M3>(codes.w, high.z, high.w);
    StoreShared16(shared.x(row) + piece * 32, low);
    StoreShared16(shared.x(row) + piece * 32 + 16, high);
    if (piece % 8 == 0) {
      const int64_t at = static_cast<int64_t>(work.first_step + piece / 8) * p.x_scale_stride + row;
      StoreShared4(shared.x_scales(piece / 8) + row * 4, __float_as_uint(p.x_scales[at]));
    }
  }
}

// All threads bring the CTA's columns of x to shared memory, some pieces at a time, whose loads are
// under way together.
template <typename Shape>
__device__ void BringX(const QuantizedGemmParams& p, const QuantizedGemvShared<Shape>& shared,
                       const QuantizedGemmWork& work) {
  if constexpr (Shape::kFloat8Tiles) {
    if (p.x_scales != nullptr) return BringFloat8X<Shape>(p, shared, work);
  }
  constexpr int kAtOnce = Shape::kRows == 8 ? 2 : 4;
  const int first = work.first_step * kStepColumns;
  const int pieces = (work.end_step - work.first_step) * kStepColumns / 8;
  const int num_pieces = pieces * p.num_rows;
  for (int i = static_cast<int>(threadIdx.x); i < RoundUp(num_pieces, 32);
       i += kAtOnce * Shape::kThreads) {
    uint4 values[kAtOnce] = {};
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int k = i + j * Shape::kThreads;
      if (k < num_pieces) values[j] = LoadXPiece(p, k / pieces, first + k % pieces * 8);
    }
#pragma unroll
    for (int j = 0; j < kAtOnce; ++j) {
      const int k = i + j * Shape::kThreads;
      float x_scale = 0;
      if constexpr (Shape::kFloat8Tiles) {
        values[j] = ToFloat8<typename Shape::Element>(values[j], x_scale);
      }
      if (k >= num_pieces) continue;  // all lanes go on together
      const int row = k / pieces, piece = k % pieces;
      if (Shape::kFloat8Tiles && threadIdx.x % 16 == 0) {
        StoreShared4(shared.x_scales(piece / 16) + row * 4, __float_as_uint(x_scale));
      }
      StoreShared16(shared.x(row) + piece * 16, values[j]);
    }
  }
}

// All threads bring the scales of the CTA's rows, which do not depend on the predecessor.
template <typename Shape>
__device__ void BringScales(const QuantizedGemmParams& p, const QuantizedGemvShared<Shape>& shared,
                            const QuantizedGemmWork& work) {
  constexpr int kQuads = kBlockRows / 4;  // of a block's rows
  const int num_quads = shared.num_steps * Shape::kBlocks * kQuads;
  for (int i = static_cast<int>(threadIdx.x); i < num_quads; i += Shape::kThreads) {
    const int step = i / (Shape::kBlocks * kQuads), block = i / kQuads % Shape::kBlocks;
    const int64_t row = work.Block<Shape::kBlocks>(p, block) * kBlockRows + i % kQuads * 4;
    const int64_t at = static_cast<int64_t>(work.first_step + step) * p.num_blocks * kBlockRows;
    StoreShared16(shared.scales(step) + i % (Shape::kBlocks * kQuads) * 16,
                  *reinterpret_cast<const uint4*>(p.tile_scales + at + row));
  }
}

}  // namespace quire::cuda
