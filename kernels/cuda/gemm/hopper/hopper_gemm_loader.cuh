// What brings the operands of gemms of few rows (hopper_gemm.cuh) to shared memory. Device code
// only.
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
      : p_(p), shared_(shared), work_(work) {}

  // The first stages' weights are on their way before the predecessor, which makes x, is done.
  __device__ void Run() const {
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

  // Of a step; the last one of e4m3 may have fewer.
  __device__ int NumBlocks(int step) const {
    if constexpr (!Shape::kFloat8) return Shape::kBlocks;
    return min(p_.num_lines - step * Shape::kBlocks, Shape::kBlocks);
  }
  __device__ void LoadWeight(int tile, int step, int stage) const {
    const uint32_t full = shared_.full(stage);
    const int first = tile * (p_.num_gates == 0 ? Shape::kTileFeatures : Shape::kHalf);
    const int second = first + (p_.num_gates == 0 ? Shape::kHalf : p_.num_gates);
    const int num_blocks = NumBlocks(step);
    if constexpr (Shape::kFloat8) {
      ArriveExpectingBytes(
          full, num_blocks * (Shape::kWeightBytes + shared_.num_x_rows * Shape::kLineBytes +
                              Shape::kTileRows * 4 + LineScales::HalfBytes(p_.float8, first) +
                              LineScales::HalfBytes(p_.float8, second)));
    } else {
      ArriveExpectingBytes(full, Shape::StageBytes(shared_.num_x_rows));
    }
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
      if (block >= num_blocks) break;
      const int line = step * Shape::kBlocks + block;
      const uint32_t to = shared_.weight(stage, block);
      const uint32_t to_second = to + Shape::kWeightBytes / 2;
      if constexpr (!Shape::kFloat8) {
        CopyBox(to, p_.weight_map, line * Shape::kLineDepth, first, full);
        CopyBox(to_second, p_.weight_map, line * Shape::kLineDepth, second, full);
      } else {
        LoadTileRows<Shape::kHalf>(p_.float8, line, first, to, full);
        LoadTileRows<Shape::kHalf>(p_.float8, line, second, to_second, full);
        const uint32_t scales = shared_.scales(stage, block);
        LineScales::LoadHalf(p_.float8, line, 0, first, scales, full);
        LineScales::LoadHalf(p_.float8, line, 1, second, scales, full);
      }
    }
  }
  __device__ void LoadX(int step, int stage) const {
    const int first_row = work_.row_tile * Shape::kTileRows;
    const int num_blocks = NumBlocks(step);
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
      if (block >= num_blocks) break;
      const int line = step * Shape::kBlocks + block;
      const uint32_t full = shared_.full(stage);
      CopyBox(shared_.x(stage, block), p_.x_map, line * Shape::kLineDepth, first_row, full);
      if constexpr (Shape::kFloat8) {
        LineScales::LoadX(p_.float8, line, first_row, shared_.scales(stage, block), full);
      }
    }
  }

  const HopperGemmParams& p_;
  const HopperGemmShared<Shape>& shared_;
  const HopperGemmWork& work_;
};

}  // namespace quire::cuda
