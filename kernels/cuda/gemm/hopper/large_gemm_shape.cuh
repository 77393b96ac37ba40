// The parameters of the kernel for gemms of many rows, how it uses shared memory, and which tiles a
// CTA takes. Device code only.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include "kernels/cuda/gemm/hopper/cluster.cuh"
#include "kernels/cuda/gemm/hopper/float8_lines.cuh"
#include "kernels/cuda/runtime/async.cuh"
#include "kernels/cuda/runtime/vector.cuh"
#include "kernels/op_args.h"

namespace quire::cuda {

struct LargeGemmParams {
  CUtensorMap weight_map;  // [out_features, in_features], boxes of half a tile's rows, a line each
  CUtensorMap x_map;       // [num_rows, in_features], boxes of half a tile's rows, a line each
  CUtensorMap out_map;     // [num_rows, num_columns], boxes of 64 rows, a line each
  Float8Matrices float8;   // of gemms of e4m3
  FloatVector bias;        // or null
  void* out;               // what out_map describes
  int64_t out_stride;
  int num_rows, num_columns;
  int num_steps;         // lines of in_features
  int num_splits;        // pairs of CTAs of a cluster, which share out the steps of two tiles
  bool shares_x;         // a pair's tiles have the same rows of x, else of the weight
  int num_row_tiles;     // of a pair: pairs of tiles, unless they share x
  int num_column_tiles;  // of a pair, likewise
  int num_gates;  // of a gated gemm, whose weight is that many gate rows, then up rows; else 0
  Activation activation;
};

// kIsFloat8: of e4m3, to results of ElementType. kNumWarpgroups: that compute. Of e4m3 three, whose
// tiles are smaller, keep the tensor cores busier than two: a warpgroup's sums of a line are added
// up while those of the others are computed.
template <typename ElementType, int kFeatures, bool kIsFloat8, int kNumWarpgroups>
struct LargeGemmShape {
  using Element = ElementType;
  static constexpr bool kFloat8 = kIsFloat8;
  static constexpr bool kMaySplit = kIsFloat8 && kFeatures == 128;  // LargeGemmParams::num_splits
  static constexpr int kPairSize = 2;
  static constexpr int kWarpgroups = kNumWarpgroups;
  static constexpr int kComputeThreads = 128 * kWarpgroups;
  static constexpr int kThreads = kComputeThreads + 128;  // one warpgroup loads
  static constexpr int kComputeRegisters = kWarpgroups == 2 ? 232 : 152, kLoadRegisters = 40;
  static constexpr int kOutRows = 64;  // of a warpgroup
  static constexpr int kTileRows = kWarpgroups * kOutRows;
  static constexpr int kTileFeatures = kFeatures;
  static constexpr int kHalf = kTileFeatures / 2;  // the gates, or the first
  static constexpr int kFragments = kTileFeatures / 8;
  static constexpr int kLineBytes = 128;
  static constexpr int kLineDepth = kIsFloat8 ? kLineBytes : kLineBytes / 2;  // in_features
  static constexpr int kOutColumns = kLineBytes / 2;  // of a block of results
  static constexpr int kXBytes = kTileRows * kLineBytes;
  static constexpr int kHalfRows = kTileRows / kPairSize;  // of x
  static constexpr int kHalfBytes = kHalf * kLineBytes;
  static constexpr int kWeightBytes = 2 * kHalfBytes;
  using LineScales = Float8LineScales<kTileRows, kHalf>;
  static constexpr int kAlignment = 1024;  // of what is swizzled
  static constexpr int kScaleBytes =
      kIsFloat8 ? (LineScales::kBytes + kAlignment - 1) / kAlignment * kAlignment : 0;
  static constexpr int kStageBytes = kXBytes + kWeightBytes + kScaleBytes;
  static constexpr int kStages = kFeatures > 128 || kWarpgroups > 2 ? 4 : kIsFloat8 ? 5 : 6;
  // Where a warpgroup leaves results for TMA to store: blocks of its rows, a line each.
  static constexpr int kOutBlocks = 2;
  static constexpr int kOutBlockBytes = kOutRows * kLineBytes;
  static constexpr int kOutBytes = kOutBlocks * kOutBlockBytes;
  static constexpr int kSharedBytes =
      2 * kAlignment + kStages * kStageBytes + kWarpgroups * kOutBytes;
  static_assert(kSharedBytes <= 227 * 1024);
  // This many pairs of tiles of rows go through all of the weight before the next pairs: their rows
  // of x and the weights at hand fit L2.
  static constexpr int kGroupPairs = 16;
};

template <typename Shape>
struct LargeGemmShared {
  uint32_t mbarriers, stages;

  __device__ explicit LargeGemmShared(uint8_t* raw)
      : mbarriers((SharedAddress(raw) + Shape::kAlignment - 1) / Shape::kAlignment *
                  Shape::kAlignment),
        stages(mbarriers + Shape::kAlignment) {}

  __device__ uint32_t x(int stage) const { return stages + stage * Shape::kStageBytes; }
  __device__ uint32_t weight(int stage, int half) const {
    return x(stage) + Shape::kXBytes + half * Shape::kHalfBytes;
  }
  __device__ uint32_t scales(int stage) const { return weight(stage, 2); }
  __device__ uint32_t out(int warpgroup) const {
    return x(Shape::kStages) + warpgroup * Shape::kOutBytes;
  }
  // Sums that another CTA adds up, where stages were: a thread's of a fragment.
  __device__ uint32_t sums(int fragment) const {
    return stages + (fragment * Shape::kComputeThreads + threadIdx.x) * 16;
  }
  __device__ uint32_t full(int stage) const { return mbarriers + stage * 16; }
  // Of both CTAs of a pair: what one loads next goes to both.
  __device__ uint32_t free(int stage) const { return full(stage) + 8; }

  __device__ void InitMbarriers() const {
    for (int i = 0; i < Shape::kStages; ++i) {
      InitMbarrier(full(i), 1);
      InitMbarrier(free(i), Shape::kPairSize * Shape::kComputeThreads / 32);
    }
    PublishMbarriers();
  }
};

// A CTA's tiles, in turn, and its share of their steps. CTAs of a cluster: pairs, which share the
// steps out.
template <typename Shape>
class LargeGemmTiles {
 public:
  __device__ explicit LargeGemmTiles(const LargeGemmParams& p)
      : p_(p),
        rank_(ClusterRank() % Shape::kPairSize),
        split_(ClusterRank() / Shape::kPairSize),
        cluster_size_(Shape::kPairSize * p.num_splits),
        first_step_(StepOf(split_)),
        end_step_(StepOf(split_ + 1)),
        index_(static_cast<int>(blockIdx.x) / cluster_size_) {
    Place();
  }

  __device__ bool AtEnd() const { return index_ >= p_.num_row_tiles * p_.num_column_tiles; }
  __device__ void Next() {
    index_ += static_cast<int>(gridDim.x) / cluster_size_;
    Place();
  }
  // In its pair, and the first CTA of that in the cluster.
  __device__ int rank() const { return rank_; }
  __device__ int first_of_pair() const { return split_ * Shape::kPairSize; }
  // As bits.
  __device__ uint16_t pair() const {
    return static_cast<uint16_t>(((1 << Shape::kPairSize) - 1) << first_of_pair());
  }
  __device__ int split() const { return split_; }
  // Lines of in_features.
  __device__ int first_step() const { return first_step_; }
  __device__ int end_step() const { return end_step_; }
  __device__ int first_row() const { return first_row_; }
  __device__ int column_tile() const { return column_tile_; }
  // The weight's row that a half of the tile begins with.
  __device__ int FirstWeightRow(int half) const {
    return p_.num_gates == 0 ? column_tile_ * Shape::kTileFeatures + half * Shape::kHalf
                             : column_tile_ * Shape::kHalf + half * p_.num_gates;
  }

 private:
  // Kept in a register: else the compiler divides anew in every step.
  __device__ int StepOf(int split) const {
    int step = p_.num_steps * split / p_.num_splits;
    asm("" : "+r"(step));
    return step;
  }
  __device__ void Place() {
    const int group = index_ / (Shape::kGroupPairs * p_.num_column_tiles);
    const int first_tile = group * Shape::kGroupPairs;
    const int num_tiles = max(min(Shape::kGroupPairs, p_.num_row_tiles - first_tile), 1);
    const int in_group = index_ - first_tile * p_.num_column_tiles;
    column_tile_ = in_group / num_tiles;
    const int row_tile = first_tile + in_group - column_tile_ * num_tiles;
    const int own_row_tile = p_.shares_x ? row_tile : row_tile * Shape::kPairSize + rank_;
    if (p_.shares_x) column_tile_ = column_tile_ * Shape::kPairSize + rank_;
    first_row_ = own_row_tile * Shape::kTileRows;
  }

  const LargeGemmParams& p_;
  const int rank_, split_, cluster_size_;
  const int first_step_, end_step_;
  int index_, first_row_, column_tile_;
};

}  // namespace quire::cuda
