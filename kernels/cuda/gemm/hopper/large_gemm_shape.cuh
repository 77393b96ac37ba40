// What the kernel for gemms of many rows is told, how it uses shared memory, and which tiles a CTA
// takes. Device code only.
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
  int num_columns;
  int num_steps;         // lines of in_features
  bool shares_x;         // a cluster's tiles have the same rows of x, else of the weight
  int num_row_tiles;     // of a cluster: pairs of tiles, unless they share x
  int num_column_tiles;  // of a cluster, likewise
  int num_gates;  // of a gated gemm, whose weight is that many gate rows, then up rows; else 0
  Activation activation;
};

// kIsFloat8: of e4m3, to results of ElementType.
template <typename ElementType, int kFeatures, bool kIsFloat8 = false>
struct LargeGemmShape {
  using Element = ElementType;
  static constexpr bool kFloat8 = kIsFloat8;
  static constexpr int kClusterSize = 2;
  static constexpr int kWarpgroups = 2;  // that compute
  static constexpr int kComputeThreads = 128 * kWarpgroups;
  static constexpr int kThreads = kComputeThreads + 128;
  static constexpr int kComputeRegisters = 240, kLoadRegisters = 24;
  static constexpr int kOutRows = 64;  // of a warpgroup
  static constexpr int kTileRows = kWarpgroups * kOutRows;
  static constexpr int kTileFeatures = kFeatures;
  static constexpr int kHalf = kTileFeatures / 2;  // the gates, or the first
  static constexpr int kFragments = kTileFeatures / 8;
  static constexpr int kLineBytes = 128;
  static constexpr int kLineDepth = kIsFloat8 ? kLineBytes : kLineBytes / 2;  // in_features
  static constexpr int kOutColumns = kLineBytes / 2;  // of a block of results
  static constexpr int kXBytes = kTileRows * kLineBytes;
  static constexpr int kHalfRows = kTileRows / kClusterSize;  // of x
  static constexpr int kHalfBytes = kHalf * kLineBytes;
  using LineScales = Float8LineScales<kTileRows, kHalf>;
  static constexpr int kAlignment = 1024;  // of what is swizzled
  static constexpr int kScaleBytes =
      kIsFloat8 ? (LineScales::kBytes + kAlignment - 1) / kAlignment * kAlignment : 0;
  static constexpr int kStageBytes = kXBytes + 2 * kHalfBytes + kScaleBytes;
  static constexpr int kStages = kFeatures > 128 ? 4 : kIsFloat8 ? 5 : 6;
  // Where a warpgroup leaves results for TMA to store: blocks of its rows, a line each.
  static constexpr int kOutBlocks = 2;
  static constexpr int kOutBlockBytes = kOutRows * kLineBytes;
  static constexpr int kOutBytes = kOutBlocks * kOutBlockBytes;
  static constexpr int kSharedBytes =
      2 * kAlignment + kStages * kStageBytes + kWarpgroups * kOutBytes;
  static_assert(kSharedBytes <= 227 * 1024);
  // So many pairs of tiles of rows go through all of the weight before the next: their rows of x
  // and the weights at hand fit L2.
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
  __device__ uint32_t scales(int stage) const {
    return x(stage) + Shape::kXBytes + 2 * Shape::kHalfBytes;
  }
  __device__ uint32_t out(int warpgroup) const {
    return x(Shape::kStages) + warpgroup * Shape::kOutBytes;
  }
  __device__ uint32_t full(int stage) const { return mbarriers + stage * 16; }
  // Of both CTAs: what one loads next goes to both.
  __device__ uint32_t free(int stage) const { return full(stage) + 8; }

  __device__ void InitMbarriers() const {
    for (int i = 0; i < Shape::kStages; ++i) {
      InitMbarrier(full(i), 1);
      InitMbarrier(free(i), Shape::kClusterSize * Shape::kComputeThreads / 32);
    }
    PublishMbarriers();
  }
};

// A CTA's tiles, in turn.
template <typename Shape>
class LargeGemmTiles {
 public:
  __device__ explicit LargeGemmTiles(const LargeGemmParams& p)
      : p_(p), rank_(ClusterRank()), index_(static_cast<int>(blockIdx.x) / Shape::kClusterSize) {
    Place();
  }

  __device__ bool AtEnd() const { return index_ >= p_.num_row_tiles * p_.num_column_tiles; }
  __device__ void Next() {
    index_ += static_cast<int>(gridDim.x) / Shape::kClusterSize;
    Place();
  }
  __device__ int rank() const { return rank_; }
  __device__ int first_row() const { return first_row_; }
  __device__ int column_tile() const { return column_tile_; }

 private:
  __device__ void Place() {
    const int group = index_ / (Shape::kGroupPairs * p_.num_column_tiles);
    const int first_tile = group * Shape::kGroupPairs;
    const int num_tiles = max(min(Shape::kGroupPairs, p_.num_row_tiles - first_tile), 1);
    const int in_group = index_ - first_tile * p_.num_column_tiles;
    column_tile_ = in_group / num_tiles;
    int row_tile = first_tile + in_group - column_tile_ * num_tiles;
    int& divided = p_.shares_x ? column_tile_ : row_tile;
    divided = divided * Shape::kClusterSize + rank_;
    first_row_ = row_tile * Shape::kTileRows;
  }

  const LargeGemmParams& p_;
  const int rank_;
  int index_, first_row_, column_tile_;
};

}  // namespace quire::cuda
