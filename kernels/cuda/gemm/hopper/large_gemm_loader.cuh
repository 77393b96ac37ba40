// Brings the operands of gemms of many rows (large_gemm.cuh) to shared memory. Lanes of different
// warps do this, because one lane would have too much to do for each step. Device code only.
#pragma once

#include "kernels/cuda/gemm/hopper/large_gemm_shape.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

// The lane that brings x, with its scales, and expects all bytes of a stage.
template <typename Shape>
class LargeGemmXLoader {
 public:
  __device__ LargeGemmXLoader(const LargeGemmParams& p, const LargeGemmShared<Shape>& shared)
      : p_(p), shared_(shared), tiles_(p) {}

  __device__ void Run() {
    PrefetchMap(p_.x_map);
    WaitForPredecessor();  // which makes x
    RingPlace place;
    for (; !tiles_.AtEnd(); tiles_.Next()) {
      const int bytes = StageBytes();
      Float8XScalesSource<Shape::kTileRows> scales(p_.float8, tiles_.first_row(),
                                                   tiles_.first_step());
      for (int step = tiles_.first_step(); step < tiles_.end_step(); ++step) {
        Wait(shared_.free(place.index), place.parity ^ 1);
        const uint32_t full = shared_.full(place.index);
        ArriveExpectingBytes(full, bytes);
        Load(step, place.index);
        if constexpr (Shape::kFloat8) {
          scales.Load(shared_.scales(place.index), full);
          scales.Next();
        }
        place.Next(Shape::kStages);
      }
    }
  }

 private:
  using LineScales = typename Shape::LineScales;

  __device__ void Load(int step, int stage) const {
    const uint32_t full = shared_.full(stage), to = shared_.x(stage);
    const int column = step * Shape::kLineDepth;
    if (p_.shares_x) {
      const int half = tiles_.rank();
      CopyBoxToAll(to + half * kHalfBytes, p_.x_map, column,
                   tiles_.first_row() + half * Shape::kHalfRows, full, tiles_.pair());
      return;
    }
#pragma unroll
    for (int half = 0; half < Shape::kPairSize; ++half) {
      CopyBox(to + half * kHalfBytes, p_.x_map, column,
              tiles_.first_row() + half * Shape::kHalfRows, full);
    }
  }
  static constexpr int kHalfBytes = Shape::kHalfRows * Shape::kLineBytes;

  __device__ int StageBytes() const {
    if constexpr (!Shape::kFloat8) return Shape::kStageBytes;
    return Shape::kXBytes + Shape::kWeightBytes + Shape::kTileRows * 4 +
           LineScales::HalfBytes(p_.float8, tiles_.FirstWeightRow(0)) +
           LineScales::HalfBytes(p_.float8, tiles_.FirstWeightRow(1));
  }

  const LargeGemmParams& p_;
  const LargeGemmShared<Shape>& shared_;
  LargeGemmTiles<Shape> tiles_;
};

// A lane that brings half of the weight's rows, with their scales: to both CTAs of a pair, unless
// those share x.
template <typename Shape>
class LargeGemmWeightLoader {
 public:
  __device__ LargeGemmWeightLoader(const LargeGemmParams& p, const LargeGemmShared<Shape>& shared,
                                   int half)
      : p_(p), shared_(shared), half_(half), tiles_(p) {}

  // Weights are on their way before the predecessor, which makes x, is done.
  __device__ void Run() {
    const bool is_mine = p_.shares_x || half_ == tiles_.rank();
    const uint16_t ctas = p_.shares_x ? 0 : tiles_.pair();
    RingPlace place;
    for (; !tiles_.AtEnd(); tiles_.Next()) {
      const int row = tiles_.FirstWeightRow(half_);
      Float8HalfSource<typename Shape::LineScales, Shape::kHalf> source(p_.float8, row,
                                                                        tiles_.first_step());
      for (int step = tiles_.first_step(); step < tiles_.end_step(); ++step) {
        Wait(shared_.free(place.index), place.parity ^ 1);
        const uint32_t full = shared_.full(place.index), to = shared_.weight(place.index, half_);
        if constexpr (Shape::kFloat8) {
          if (is_mine) source.LoadRows(to, full, ctas);
          source.LoadScales(shared_.scales(place.index) + Shape::LineScales::HalfAt(half_), full);
          source.Next();
        } else if (is_mine) {
          LoadBox(to, step * Shape::kLineDepth, row, full, ctas);
        }
        place.Next(Shape::kStages);
      }
    }
  }

 private:
  __device__ void LoadBox(uint32_t to, int column, int row, uint32_t full, uint16_t ctas) const {
    if (ctas == 0) {
      CopyBox(to, p_.weight_map, column, row, full);
    } else {
      CopyBoxToAll(to, p_.weight_map, column, row, full, ctas);
    }
  }

  const LargeGemmParams& p_;
  const LargeGemmShared<Shape>& shared_;
  const int half_;
  LargeGemmTiles<Shape> tiles_;
};

}  // namespace quire::cuda
