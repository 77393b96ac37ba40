// How gemvs of quantized weights (quantized_gemv.cuh) divide their work and use shared memory.
// Device code only.
#pragma once

#include <type_traits>

#include "kernels/cuda/gemm/quantized/quantized_gemm_shape.cuh"
#include "kernels/cuda/gemm/quantized/quantized_kernels.h"

namespace quire::cuda {

template <WeightValue kWeightValue, typename ElementType, int kGroupsOfStep, bool kIsTiles = false>
struct QuantizedGemvShape
    : QuantizedShape<kWeightValue, ElementType, kMaxQuantizedGemvRows, kGroupsOfStep, kIsTiles> {
  using Base =
      QuantizedShape<kWeightValue, ElementType, kMaxQuantizedGemvRows, kGroupsOfStep, kIsTiles>;
  static constexpr int kRows = kMaxQuantizedGemvRows;
  static constexpr int kWarps = kGemvWarps;
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kCtasPerSm = 2;
  static constexpr int kStrips = kGemvWarpStrips;  // of a warp
  static constexpr int kMaxStages = 16;
  static constexpr int kMbarrierBytes = kWarps * kMaxStages * 8;
  static constexpr int kSumsGap = 4;  // between the sums of two rows of x: keeps banks apart
  static constexpr int kRowGap = 16;  // between rows of x, bytes: likewise
  // Codes of integers are multiplied as they are. Codes of four bits are float16's subnormal
  // numbers where they lie, so that an operand takes a mask and at most a shift. Zero points are
  // taken off the sums.
  static constexpr bool kRawInts = Base::kIsInt;
  // x is multiplied as float16, with a scale for each row and step, a power of two: bfloat16's
  // numbers are exact in it down to 2^-29 of the step's largest. Tiles and their x are e4m3, which
  // float16 holds exactly.
  static constexpr bool kScalesX = kIsTiles || kRawInts;
  using Factor = std::conditional_t<kScalesX, __half, ElementType>;
  static constexpr int kXSums = !kRawInts ? 0 : kGroupsOfStep == 0 ? 1 : kGroupsOfStep;
  // Of a step: the scales of x's rows and, for each group, the sums of x's columns.
  static constexpr int kXScaleBytes = kScalesX ? kRows * 4 * (1 + kXSums) : 0;
  // The scales of a strip that lie apart from the codes.
  static constexpr int kScaleBytes = kIsTiles && kGroupsOfStep > 0 ? kQuarterRows * 4 : 0;

  // What a warp has of a step: the codes of its strips, then such scales.
  static constexpr int StageBytes(int step_bytes) {
    return kStrips * (step_bytes / kBlockStrips + kScaleBytes);
  }
  // The sums of num_rows rows of x; with two buffers, those of two tiles.
  static constexpr int SumsBytes(int num_strips, int num_rows) {
    return kWarps * kStrips / num_strips * num_rows * (num_strips * kQuarterRows + kSumsGap) * 4;
  }
  static constexpr int SharedBytes(int step_bytes, int num_stages, int num_rows, int num_steps,
                                   int num_strips) {
    return kMbarrierBytes + kWarps * num_stages * StageBytes(step_bytes) +
           2 * SumsBytes(num_strips, num_rows) + num_steps * kXScaleBytes +
           num_rows * (num_steps * kStepColumns * 2 + kRowGap);
  }
};

// What a CTA does: its share of the steps, of each tile of num_strips strips that is its turn.
// Numbers that something is divided by are powers of two.
struct QuantizedGemvWork {
  int split, first_step, num_steps;
  int unit_shift;  // of the units of two strips that a tile has
  int expert = 0;
  int first_row = 0, num_rows;  // of x, of this CTA

  // rows: of experts, those of the tile blockIdx.z.
  __device__ QuantizedGemvWork(const QuantizedGemmParams& p, const ExpertTile& rows)
      : split(static_cast<int>(blockIdx.x)),
        unit_shift(Log2(p.num_strips / kGemvWarpStrips)),
        num_rows(p.num_rows) {
    if (p.offsets != nullptr) {
      expert = rows.expert, first_row = rows.first_row, num_rows = rows.num_rows;
    }
    const int shift = Log2(p.num_splits);
    first_step = split * p.num_steps >> shift;
    num_steps = ((split + 1) * p.num_steps >> shift) - first_step;
  }
  // The expert's.
  __device__ const uint8_t* Weight(const QuantizedGemmParams& p) const {
    return p.weight + expert * p.expert_bytes;
  }
  __device__ const float* RowScales(const QuantizedGemmParams& p) const {
    return reinterpret_cast<const float*>(reinterpret_cast<const char*>(p.row_scales) +
                                          expert * p.expert_bytes);
  }
  // Of x, that a row of this CTA has.
  __device__ int XRow(const QuantizedGemmParams& p, int row) const {
    if (!p.gathers_x) return first_row + row;
    return p.x_pairs == nullptr ? 0 : p.x_pairs[first_row + row] / p.top_k;
  }
  static __device__ int Log2(int power) { return __ffs(power) - 1; }

  __device__ int feature_shift() const { return unit_shift + Log2(kGemvWarpStrips * kQuarterRows); }
  __device__ int share_shift() const { return Log2(kGemvWarps) - unit_shift; }
};

template <typename Shape>
struct QuantizedGemvShared {
  const QuantizedGemmParams& p;
  uint32_t mbarriers, x_scales_at, x_at;
  int x_stride;

  __device__ QuantizedGemvShared(uint8_t* raw, const QuantizedGemmParams& p, int num_steps)
      : p(p),
        mbarriers(SharedAddress(raw)),
        x_scales_at(sums(2, 0, 0, 0)),
        x_at(x_scales_at + num_steps * Shape::kXScaleBytes),
        x_stride(num_steps * kStepColumns * 2 + Shape::kRowGap) {}

  __device__ uint32_t full(int warp, int stage) const {
    return mbarriers + (warp * Shape::kMaxStages + stage) * 8;
  }
  __device__ uint32_t stage(int warp, int stage) const {
    return mbarriers + Shape::kMbarrierBytes + (warp * p.num_stages + stage) * p.stage_bytes;
  }
  __device__ int sums_stride() const { return (p.num_strips * kQuarterRows + Shape::kSumsGap) * 4; }
  // The sums of a share of the steps.
  __device__ uint32_t sums(int buffer, int share, int row, int feature) const {
    return stage(Shape::kWarps, 0) + buffer * p.sums_bytes +
           (share * p.num_rows + row) * sums_stride() + feature * 4;
  }
  __device__ uint32_t x_scales(int step) const { return x_scales_at + step * Shape::kXScaleBytes; }
  __device__ uint32_t x_sums(int step, int group) const {
    return x_scales(step) + (1 + group) * Shape::kRows * 4;
  }
  __device__ uint32_t x(int row) const { return x_at + row * x_stride; }
};

}  // namespace quire::cuda
