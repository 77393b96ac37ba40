// What the kernel for gemms with quantized weights is told and how it uses shared memory. Device
// code only.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/cuda/gemm/hopper/cluster.cuh"
#include "kernels/cuda/gemm/quantized/packed_layout.h"
#include "kernels/cuda/runtime/async.cuh"
#include "kernels/cuda/runtime/vector.cuh"
#include "kernels/op_args.h"

namespace quire::cuda {

// In one part: what is issued while the next part's operands are made.
inline constexpr int kMaxGemmsAtOnce = 4;

struct QuantizedGemmParams {
  CUtensorMap x_map;        // [num_rows, in_features], boxes of a tile's rows, one line each
  const uint8_t* weight;    // PackedLayout
  const float* row_scales;  // [blocks * kBlockRows], or null
  FloatVector bias;         // or null
  void* out;
  int64_t out_stride;  // in elements
  int num_rows;
  int num_features;  // of out
  int num_blocks, num_steps, num_splits, num_stages;
  int step_bytes, scales_at, zeros_at;  // of a step, and in it
  int groups_per_step;
  ScaleValue scale;
  bool has_zero_points;
  bool out_is_float;  // float32; else of x's type
  int num_gates;      // of a gated gemm, whose weight is that many gate rows, then up rows; else 0
  Activation activation;
};

// kGemms: gemms of one slice each that are issued together, for one scale or a part of one.
template <WeightValue kWeightValue, typename ElementType, int kTileRowsOfX, int kGemmsAtOnce>
struct QuantizedGemmShape {
  using Element = ElementType;
  static constexpr WeightValue kValue = kWeightValue;
  static constexpr int kBits =
      kValue == WeightValue::kInt4 || kValue == WeightValue::kFloat4 ? 4 : 8;
  static constexpr int kGemms = kGemmsAtOnce;
  // Scales are applied to values, not to sums.
  static constexpr bool kScaledValues = kValue == WeightValue::kFloat4 && kGemms == kMaxGemmsAtOnce;
  static constexpr int kRows = kTileRowsOfX;  // of x
  static constexpr int kFragments = kRows / 8;
  static constexpr int kWarpgroups = 2;  // that compute, each a block of the weight
  static constexpr int kComputeThreads = 128 * kWarpgroups;
  static constexpr int kThreads = kComputeThreads + 32;
  static constexpr int kCtasPerSm = kRows <= 32 ? 2 : 1;
  static constexpr int kTileFeatures = kWarpgroups * kBlockRows;
  static constexpr int kLineBytes = 128;
  static constexpr int kBoxColumns = kLineBytes / 2;
  static constexpr int kBoxes = kStepColumns / kBoxColumns;
  static constexpr int kBoxBytes = kRows * kLineBytes;
  static constexpr int kWarpBytes = kBlockRows * kStepColumns * kBits / 8 / 4;  // codes of a step
  static constexpr int kMaxStages = 24;
  static constexpr int kAlignment = 1024;  // of what is swizzled
  static_assert(2 * kMaxStages * 8 <= kAlignment);
  // Sums on their way out, a line of each row of x; the gap keeps banks apart.
  static constexpr int kSumsStride = kTileFeatures + 4;
  static constexpr int kSumsBytes = kRows * kSumsStride * 4;

  static constexpr int StageBytes(int step_bytes) {
    return kBoxes * kBoxBytes +
           (kWarpgroups * step_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  static constexpr int SharedBytes(int step_bytes, int num_stages) {
    const int ring_bytes = num_stages * StageBytes(step_bytes);
    return 2 * kAlignment + (ring_bytes > kSumsBytes ? ring_bytes : kSumsBytes);
  }
};

template <typename Shape>
struct QuantizedGemmShared {
  uint32_t mbarriers, ring;
  int stage_bytes;

  __device__ QuantizedGemmShared(uint8_t* raw, const QuantizedGemmParams& p)
      : mbarriers((SharedAddress(raw) + Shape::kAlignment - 1) / Shape::kAlignment *
                  Shape::kAlignment),
        ring(mbarriers + Shape::kAlignment),
        stage_bytes(Shape::StageBytes(p.step_bytes)) {}

  __device__ uint32_t x(int stage, int box) const {
    return ring + stage * stage_bytes + box * Shape::kBoxBytes;
  }
  __device__ uint32_t weight(int stage) const { return x(stage, Shape::kBoxes); }
  // Where the ring was.
  __device__ uint32_t sums(int row, int feature) const {
    return ring + (row * Shape::kSumsStride + feature) * 4;
  }
  __device__ uint32_t full(int stage) const { return mbarriers + stage * 16; }
  __device__ uint32_t free(int stage) const { return full(stage) + 8; }

  __device__ void InitMbarriers(const QuantizedGemmParams& p) const {
    for (int i = 0; i < p.num_stages; ++i) {
      InitMbarrier(full(i), 1);
      InitMbarrier(free(i), Shape::kComputeThreads / 32);
    }
    PublishMbarriers();
  }
};

// What a CTA does: a tile of the weight's rows and one of x's, its share of the steps.
struct QuantizedGemmWork {
  int split, first_row, tile;
  int first_step, end_step;

  __device__ QuantizedGemmWork(const QuantizedGemmParams& p, int tile_rows)
      : split(static_cast<int>(blockIdx.x) % p.num_splits),
        first_row(static_cast<int>(blockIdx.x) / p.num_splits * tile_rows),
        tile(static_cast<int>(blockIdx.y)),
        first_step(split * p.num_steps / p.num_splits),
        end_step((split + 1) * p.num_steps / p.num_splits) {}

  // The block that a warpgroup multiplies with; beyond the last one, the last one again.
  __device__ int Block(const QuantizedGemmParams& p, int warpgroup) const {
    if (p.num_gates > 0) return warpgroup * (p.num_gates / kBlockRows) + tile;
    return min(tile * 2 + warpgroup, p.num_blocks - 1);
  }
};

}  // namespace quire::cuda
