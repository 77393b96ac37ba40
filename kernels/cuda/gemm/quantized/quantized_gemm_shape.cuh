// The parameters of the kernel for gemms with quantized weights, and how it uses shared memory.
// Device code only.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/cuda/gemm/hopper/cluster.cuh"
#include "kernels/cuda/gemm/quantized/quantized_kernels.h"
#include "kernels/cuda/runtime/async.cuh"
#include "kernels/cuda/runtime/expert_tiles.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/vector.cuh"
#include "kernels/op_args.h"
#include "kernels/packed_layout.h"

namespace quire::cuda {

struct QuantizedGemmParams {
  CUtensorMap x_map;  // [num_rows, in_features], boxes of a tile's rows, one line each; for gemms
  const uint16_t* x;  // the same, for gemvs; or Float8Rows with these scales
  const float* x_scales;
  int64_t x_stride, x_scale_stride;
  int num_columns;
  const uint8_t* weight;     // PackedLayout
  const float* tile_scales;  // of tiles, [num_steps, blocks * kBlockRows], or null
  const float* row_scales;   // [blocks * kBlockRows], or null
  FloatVector bias;          // or null
  void* out;
  int64_t out_stride;  // in elements
  int num_rows;
  int num_features;  // of out
  int num_blocks, num_steps, num_splits, num_shares, num_stages;
  // Of a gemv: the strips of a tile, all tiles, what a warp has of a step, the sums of a tile, and
  // how far a warp's second strip is from its first, in the weight and in tile_scales.
  int num_strips, num_tiles, stage_bytes, sums_bytes;
  int64_t pair_bytes, pair_scales;
  int step_bytes;
  int scales_at, zeros_at;  // in a quarter of a step
  bool has_zero_points;
  bool out_is_float;  // float32; else of x's type
  int num_gates;      // of a gated gemm, whose weight is that many gate rows, then up rows; else 0
  Activation activation;
  // For gemms with experts (kernels/experts.h). x is sorted by expert, as `offsets` says; null:
  // there is one weight. A row's result goes where `pairs` says; null: it goes where the row of x
  // is.
  const int32_t* offsets = nullptr;
  const int32_t* pairs = nullptr;
  int num_experts = 1;
  int64_t expert_bytes = 0;
  // For gemvs with experts. x has a row for each token instead, and a pair's row of x is its number
  // over top_k. Without x_pairs there is one token.
  bool gathers_x = false;
  const int32_t* x_pairs = nullptr;
  int top_k = 1;
};

inline constexpr int kMinScaledRows = 128;

// The parameters that kernels are compiled for. A positive kGroupsOfStep is the number of a step's
// groups whose sums are scaled, or whose values are where x has many rows (kScaledInts). A negative
// kGroupsOfStep stands for -kGroupsOfStep groups whose values are scaled (HasScaledValues). If it
// is 0, the sum of a row is scaled. kIsTiles: the weight is HasFloat8Tiles.
template <WeightValue kWeightValue, typename ElementType, int kTileRowsOfX, int kGroupsOfStep,
          bool kIsTiles = false>
struct QuantizedShape {
  using Element = ElementType;
  static constexpr WeightValue kValue = kWeightValue;
  static constexpr int kBits = BitsOf(kValue);
  static constexpr int kGroups = kGroupsOfStep > 0 ? kGroupsOfStep : 0;
  static constexpr int kScaledGroups = kGroupsOfStep < 0 ? -kGroupsOfStep : 0;
  static constexpr bool kScaledValues = kScaledGroups > 0;
  static constexpr bool kPowerScales = kGroupsOfStep == kPowerScaledGroups;
  static constexpr bool kIsFloat4 = kValue == WeightValue::kFloat4;
  static constexpr bool kIsInt = kValue == WeightValue::kInt4 || kValue == WeightValue::kInt8;
  // Integers times their group's scale, rounded once: for many rows, whose gemms then never wait
  // for sums to be scaled.
  static constexpr bool kScaledInts = kIsInt && kGroups > 0 && kTileRowsOfX >= kMinScaledRows;
  static constexpr bool kRawInts = false;  // gemvs have theirs (quantized_gemv_shape.cuh)
  static constexpr bool kFloat8Tiles = kIsTiles;
  // Gemms of a slice each that are issued together: a part of a step, of one group.
  static constexpr int kGemms = kGroups <= 2 ? 4 : kStepSlices / kGroups;
  static constexpr int kParts = kStepSlices / kGemms;
  static constexpr int kRows = kTileRowsOfX;  // of x
  static constexpr int kFragments = kRows / 8;
};

template <WeightValue kWeightValue, typename ElementType, int kTileRowsOfX, int kGroupsOfStep>
struct QuantizedGemmShape : QuantizedShape<kWeightValue, ElementType, kTileRowsOfX, kGroupsOfStep> {
  static constexpr int kRows = kTileRowsOfX;
  using Base = QuantizedShape<kWeightValue, ElementType, kTileRowsOfX, kGroupsOfStep>;
  // Sums of groups are scaled and added up; else there are only those of all.
  static constexpr bool kScalesSums = Base::kGroups > 0 && !Base::kScaledInts;
  // Of few rows: by warps (QuantizedFewRows), each with kStrips times 16 rows of the weight. More
  // rows take the warpgroups' gemms, which read x themselves: a warp would have to load each of its
  // fragments from shared memory for its few rows of the weight.
  static constexpr bool kByWarps = kRows <= kMaxFewRows;
  static constexpr int kStrips = kByWarps ? 2 : 1;

  // That compute, each kStrips blocks of the weight: as many as registers allow, because a warp
  // that has started gemms with operands in its registers does little else until they run.
  static constexpr int kWarpgroups = kByWarps                                        ? 1
                                     : kRows == 64 || (kRows == 128 && !kScalesSums) ? 4
                                                                                     : 2;
  static constexpr int kBlocks = kWarpgroups * kStrips;  // of a tile
  static constexpr int kComputeThreads = 128 * kWarpgroups;
  // Where sums take many registers, a whole warpgroup loads, which gives up its own.
  static constexpr bool kMovesRegisters = kRows >= 64;
  static constexpr int kThreads = kComputeThreads + (kMovesRegisters ? 128 : 32);
  static constexpr int kComputeRegisters = kWarpgroups == 4 ? 112 : 240, kLoadRegisters = 24;
  // A CTA has what it starts with, in eights a thread: more would be waited for without end.
  static_assert(!kMovesRegisters || kComputeThreads * kComputeRegisters + 128 * kLoadRegisters <=
                                        kThreads * (65536 / kThreads / 8 * 8));
  static constexpr int kCtasPerSm = kByWarps ? 4 : kRows == 32 ? 2 : 1;
  static constexpr int kTileFeatures = kBlocks * kBlockRows;
  static constexpr int kLineBytes = 128;
  static constexpr int kBoxColumns = kLineBytes / 2;
  static constexpr int kBoxes = kStepColumns / kBoxColumns;
  static constexpr int kBoxBytes = kRows * kLineBytes;
  static constexpr int kMaxStages = 24;
  static constexpr int kAlignment = 1024;  // of what is swizzled
  static_assert(2 * kMaxStages * 8 <= kAlignment);
  // Sums on their way out, a line of each row of x; the gap keeps banks apart.
  static constexpr int kSumsStride = kTileFeatures + 4;
  static constexpr int kSumsBytes = kRows * kSumsStride * 4;

  static constexpr int StageBytes(int step_bytes) {
    return kBoxes * kBoxBytes + (kBlocks * step_bytes + kAlignment - 1) / kAlignment * kAlignment;
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
  static constexpr int kMbarrierStride = 16;  // from stage to stage
  __device__ uint32_t full(int stage) const { return mbarriers + stage * kMbarrierStride; }
  __device__ uint32_t free(int stage) const { return full(stage) + 8; }

  __device__ void InitMbarriers(const QuantizedGemmParams& p) const {
    for (int i = 0; i < p.num_stages; ++i) {
      InitMbarrier(full(i), 1);
      InitMbarrier(free(i), p.num_shares * Shape::kComputeThreads / 32);
    }
    PublishMbarriers();
  }
};

// What a CTA does: a tile of the weight's rows and one of x's, its share of the steps. The CTAs of
// a cluster have the same rows of x; num_splits of them share out the steps of a tile, num_shares
// have different tiles and bring x for each other.
struct QuantizedGemmWork {
  int split, share;
  int expert = 0;
  int first_row, end_row, tile;
  int first_step, end_step;

  // rows: of experts, those of RowTile.
  __device__ QuantizedGemmWork(const QuantizedGemmParams& p, int tile_rows,
                               const ExpertTile& rows) {
    const int cluster_size = p.num_splits * p.num_shares;
    const int rank = static_cast<int>(blockIdx.x) % cluster_size;
    split = rank % p.num_splits;
    share = rank / p.num_splits;
    tile = (p.offsets == nullptr ? Slow() : Fast(p)) * p.num_shares + share;
    first_row = RowTile(p) * tile_rows;
    end_row = min(first_row + tile_rows, p.num_rows);
    if (p.offsets != nullptr) {
      expert = rows.expert;
      first_row = rows.first_row;
      end_row = first_row + rows.num_rows;
    }
    first_step = split * p.num_steps / p.num_splits;
    end_step = (split + 1) * p.num_steps / p.num_splits;
  }

  // CTAs that run at the same time have the same rows of the weight; of experts the same rows of x,
  // all of which L2 may not hold, and those of the expert's weight.
  static __device__ int Fast(const QuantizedGemmParams& p) {
    return static_cast<int>(blockIdx.x) / (p.num_splits * p.num_shares);
  }
  static __device__ int Slow() { return static_cast<int>(blockIdx.y); }
  static __device__ int RowTile(const QuantizedGemmParams& p) {
    return p.offsets == nullptr ? Fast(p) : Slow();
  }

  // Of experts: there are more CTAs than tiles.
  __device__ bool IsEmpty() const { return first_row >= end_row; }
  // The expert's.
  __device__ const uint8_t* Weight(const QuantizedGemmParams& p) const {
    return p.weight + expert * p.expert_bytes;
  }
  __device__ const float* RowScales(const QuantizedGemmParams& p) const {
    return reinterpret_cast<const float*>(reinterpret_cast<const char*>(p.row_scales) +
                                          expert * p.expert_bytes);
  }

  // The number, among the weight's blocks, of one of the tile's kBlocks. Beyond the last block it
  // is the last one again. In a gated gemm the first half of the tile's blocks have gates.
  template <int kBlocks>
  __device__ int Block(const QuantizedGemmParams& p, int index) const {
    if (p.num_gates == 0) return min(tile * kBlocks + index, p.num_blocks - 1);
    constexpr int kHalf = kBlocks / 2;
    const int num_gate_blocks = p.num_gates / kBlockRows;
    const int block = min(tile * kHalf + index % kHalf, num_gate_blocks - 1);
    return index / kHalf * num_gate_blocks + block;
  }
  // The CTA of the cluster that has this share of the split, or this split of the share.
  __device__ int RankOfShare(const QuantizedGemmParams& p, int other) const {
    return split + p.num_splits * other;
  }
  __device__ int RankOfSplit(const QuantizedGemmParams& p, int other) const {
    return other + p.num_splits * share;
  }
};

}  // namespace quire::cuda
