// What brings the operands of gemms of many rows (large_gemm.cuh) to shared memory. Device code
// only.
#pragma once

#include "kernels/cuda/gemm/hopper/large_gemm_shape.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

// The loading lane.
template <typename Shape>
class LargeGemmLoader {
 public:
  __device__ LargeGemmLoader(const LargeGemmParams& p, const LargeGemmShared<Shape>& shared)
      : p_(p), shared_(shared) {}

  // The first stages' weights are on their way before the predecessor, which makes x, is done.
  __device__ void Run() {
    LargeGemmTiles<Shape> tiles(p_);
    const int num_early = min(Shape::kStages, p_.num_steps);
    for (int step = 0; step < num_early; ++step) LoadWeight(tiles, step, step);
    WaitForPredecessor();
    for (int step = 0; step < num_early; ++step) LoadX(tiles, step, step);
    RingPlace place;
    place.Advance(num_early, Shape::kStages);
    int step = num_early;
    for (; !tiles.AtEnd(); tiles.Next()) {
      for (; step < p_.num_steps; ++step) {
        Wait(shared_.free(place.index), place.parity ^ 1);
        LoadWeight(tiles, step, place.index);
        LoadX(tiles, step, place.index);
        place.Next(Shape::kStages);
      }
      step = 0;
    }
  }

 private:
  using LineScales = typename Shape::LineScales;
  static constexpr uint16_t kBoth = (1 << Shape::kClusterSize) - 1;

  // The weight's row that a half of a tile begins with.
  __device__ int FirstRow(const LargeGemmTiles<Shape>& tiles, int half) const {
    return p_.num_gates == 0 ? tiles.column_tile() * Shape::kTileFeatures + half * Shape::kHalf
                             : tiles.column_tile() * Shape::kHalf + half * p_.num_gates;
  }
  __device__ void LoadWeight(const LargeGemmTiles<Shape>& tiles, int step, int stage) const {
    const uint32_t full = shared_.full(stage);
    ArriveExpectingBytes(full, StageBytes(tiles));
    if (p_.shares_x) {
      LoadHalf(tiles, step, stage, 0, 0);
      LoadHalf(tiles, step, stage, 1, 0);
    } else {
      LoadHalf(tiles, step, stage, tiles.rank(), kBoth);
    }
    if constexpr (Shape::kFloat8) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        LineScales::LoadHalf(p_.float8, step, i, FirstRow(tiles, i), shared_.scales(stage), full);
      }
    }
  }
  // Of the weight, for this CTA or, as bits, for `ctas`.
  __device__ void LoadHalf(const LargeGemmTiles<Shape>& tiles, int step, int stage, int half,
                           uint16_t ctas) const {
    const uint32_t to = shared_.weight(stage, half), full = shared_.full(stage);
    const int row = FirstRow(tiles, half);
    if constexpr (Shape::kFloat8) {
      LoadTileRows<Shape::kHalf>(p_.float8, step, row, to, full, ctas);
    } else if (ctas == 0) {
      CopyBox(to, p_.weight_map, step * Shape::kLineDepth, row, full);
    } else {
      CopyBoxToAll(to, p_.weight_map, step * Shape::kLineDepth, row, full, ctas);
    }
  }
  __device__ void LoadX(const LargeGemmTiles<Shape>& tiles, int step, int stage) const {
    const uint32_t full = shared_.full(stage);
#pragma unroll
    for (int i = 0; i < Shape::kClusterSize; ++i) {
      const uint32_t to = shared_.x(stage) + i * Shape::kHalfRows * Shape::kLineBytes;
      const int row = tiles.first_row() + i * Shape::kHalfRows;
      if (!p_.shares_x) {
        CopyBox(to, p_.x_map, step * Shape::kLineDepth, row, full);
      } else if (i == tiles.rank()) {
        CopyBoxToAll(to, p_.x_map, step * Shape::kLineDepth, row, full, kBoth);
      }
    }
    if constexpr (Shape::kFloat8) {
      LineScales::LoadX(p_.float8, step, tiles.first_row(), shared_.scales(stage),
                        shared_.full(stage));
    }
  }
  __device__ int StageBytes(const LargeGemmTiles<Shape>& tiles) const {
    if constexpr (!Shape::kFloat8) return Shape::kStageBytes;
    return Shape::kXBytes + 2 * Shape::kHalfBytes + Shape::kTileRows * 4 +
           LineScales::HalfBytes(p_.float8, FirstRow(tiles, 0)) +
           LineScales::HalfBytes(p_.float8, FirstRow(tiles, 1));
  }

  const LargeGemmParams& p_;
  const LargeGemmShared<Shape>& shared_;
};

}  // namespace quire::cuda
