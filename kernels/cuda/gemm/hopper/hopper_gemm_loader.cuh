// Brings the operands of gemms of few rows (hopper_gemm.cuh) to shared memory. Device code only.
#pragma once

#include "kernels/cuda/gemm/hopper/hopper_gemm_shape.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

// The loading lane.
template <typename Shape>
class HopperGemmLoader {
 public:
  __device__ HopperGemmLoader(const HopperGemmParams& p, const HopperGemmShared<Shape>& shared,
                              const HopperGemmWork& work)
      : p_(p),
        shared_(shared),
        work_(work),
        halves_{HalfOf(work.first_tile, 0), HalfOf(work.first_tile, 1)},
        x_scales_(XScales()) {}

  // The first stages' weights are on their way before the predecessor, which makes x, is done.
  __device__ void Run() {
    const int num_early = min(shared_.num_stages, work_.end_step - work_.first_step);
    for (int i = 0; i < num_early; ++i) {
      LoadWeight(work_.first_tile, work_.first_step + i, i);
    }
    PrefetchMap(p_.x_map);
    WaitForPredecessor();
    for (int i = 0; i < num_early; ++i) LoadX(work_.first_step + i, i);
    RingPlace place;
    int num_seen = 0;
    for (int tile = work_.first_tile; tile < p_.num_tiles; tile += work_.tile_stride) {
      if (tile != work_.first_tile) {
        halves_[0] = HalfOf(tile, 0), halves_[1] = HalfOf(tile, 1);
        x_scales_ = XScales();
      }
      for (int step = work_.first_step; step < work_.end_step; ++step, ++num_seen) {
        if (num_seen >= num_early) {
          if (num_seen >= shared_.num_stages) Wait(shared_.free(place.index), place.parity ^ 1);
          LoadWeight(tile, step, place.index);
          LoadX(step, place.index);
        }
        place.Next(shared_.num_stages);
      }
    }
  }

 private:
  using LineScales = typename Shape::LineScales;
  using HalfSource = Float8HalfSource<LineScales, Shape::kFloat8 ? Shape::kHalf : kBlockRows>;
  using XScalesSource = Float8XScalesSource<Shape::kTileRows>;

  // The weight's row that a half of a tile begins with.
  __device__ int FirstRow(int tile, int half) const {
    return p_.num_gates == 0 ? tile * Shape::kTileFeatures + half * Shape::kHalf
                             : tile * Shape::kHalf + half * p_.num_gates;
  }
  __device__ int FirstXRow() const { return work_.row_tile * Shape::kTileRows; }
  __device__ HalfSource HalfOf(int tile, int half) const {
    return HalfSource(p_.float8, FirstRow(tile, half), work_.first_step * Shape::kBlocks);
  }
  __device__ XScalesSource XScales() const {
    return XScalesSource(p_.float8, FirstXRow(), work_.first_step * Shape::kBlocks);
  }

  // Of a step; the last one of e4m3 may have fewer.
  __device__ int NumBlocks(int step) const {
    if constexpr (!Shape::kFloat8) return Shape::kBlocks;
    return min(p_.num_lines - step * Shape::kBlocks, Shape::kBlocks);
  }
  // Step by step, as what is of e4m3 follows itself.
  __device__ void LoadWeight(int tile, int step, int stage) {
    const uint32_t full = shared_.full(stage);
    const int num_blocks = NumBlocks(step);
    if constexpr (Shape::kFloat8) {
      const int line_bytes = Shape::kWeightBytes + shared_.num_x_rows * Shape::kLineBytes +
                             Shape::kTileRows * 4 + halves_[0].scale_bytes() +
                             halves_[1].scale_bytes();
      ArriveExpectingBytes(full, num_blocks * line_bytes);
    } else {
      ArriveExpectingBytes(full, Shape::StageBytes(shared_.num_x_rows));
    }
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
      if (block >= num_blocks) break;
      const int column = (step * Shape::kBlocks + block) * Shape::kLineDepth;
      const uint32_t to = shared_.weight(stage, block);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t to_half = to + half * (Shape::kWeightBytes / 2);
        if constexpr (Shape::kFloat8) {
          halves_[half].LoadRows(to_half, full);
          halves_[half].LoadScales(shared_.scales(stage, block) + LineScales::HalfAt(half), full);
          halves_[half].Next();
        } else {
          CopyBox(to_half, p_.weight_map, column, FirstRow(tile, half), full);
        }
      }
    }
  }
  __device__ void LoadX(int step, int stage) {
    const int num_blocks = NumBlocks(step);
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
      if (block >= num_blocks) break;
      const int line = step * Shape::kBlocks + block;
      const uint32_t full = shared_.full(stage);
      CopyBox(shared_.x(stage, block), p_.x_map, line * Shape::kLineDepth, FirstXRow(), full);
      if constexpr (Shape::kFloat8) {
        x_scales_.Load(shared_.scales(stage, block), full);
        x_scales_.Next();
      }
    }
  }

  const HopperGemmParams& p_;
  const HopperGemmShared<Shape>& shared_;
  const HopperGemmWork& work_;
  HalfSource halves_[2];  // of e4m3
  XScalesSource x_scales_;
};

}  // namespace quire::cuda
