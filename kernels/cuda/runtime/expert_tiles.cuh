// The pairs of a step (Routing) in tiles of rows, each of one expert, as kernels with experts'
// weights go through them: no host knows how many there are. Device code only.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/prefix_sums.cuh"
#include "kernels/experts.h"

namespace quire::cuda {

// A tile's expert, and its rows among the sorted pairs.
struct ExpertTile {
  int expert;
  int first_row, num_rows;
};

// The tile numbered `index`, found by a warp alone; none of its rows exist beyond the last one.
// Once Route is complete.
__device__ inline ExpertTile FindExpertTile(const int32_t* offsets, int num_experts, int tile_rows,
                                            int index) {
  constexpr int kWarp = 32;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int per_lane = (num_experts + kWarp - 1) / kWarp;
  const int begin = min(lane * per_lane, num_experts), end = min(begin + per_lane, num_experts);
  const auto tiles_of = [&](int expert) {
    return (offsets[expert + 1] - offsets[expert] + tile_rows - 1) / tile_rows;
  };
  int own = 0;
#pragma unroll 4
  for (int expert = begin; expert < end; ++expert) own += tiles_of(expert);
  const int sum = UpToLane(own);
  const unsigned int beyond = __ballot_sync(~0u, sum > index);
  if (beyond == 0) return {0, 0, 0};
  const int finder = __ffs(beyond) - 1;
  int expert = begin, left = index - (sum - own);
  if (lane == finder) {
    for (int count = tiles_of(expert); left >= count; count = tiles_of(expert)) {
      left -= count;
      ++expert;
    }
  }
  expert = __shfl_sync(~0u, expert, finder);
  const int first = offsets[expert] + __shfl_sync(~0u, left, finder) * tile_rows;
  return {expert, first, min(tile_rows, offsets[expert + 1] - first)};
}

// In shared memory: how many tiles the experts before each have.
template <int kThreads>
class ExpertTiles {
 public:
  // All threads of the CTA, once Route is complete.
  __device__ void Make(const int32_t* offsets, int num_experts, int tile_rows) {
    constexpr int kWarp = 32;
    num_experts_ = num_experts;
    offsets_ = offsets;
    for (int i = threadIdx.x; i < num_experts; i += kThreads) {
      before_[i] = (offsets[i + 1] - offsets[i] + tile_rows - 1) / tile_rows;
    }
    __syncthreads();
    if (threadIdx.x < kWarp) {
      const int total = SumBefore(before_, num_experts);
      if (threadIdx.x == 0) total_ = total;
    }
    __syncthreads();
  }

  __device__ int total() const { return total_; }

  // The tile numbered `index`, below total().
  __device__ ExpertTile Find(int index, int tile_rows) const {
    int low = 0, high = num_experts_;  // the last expert with before_ <= index is in [low, high)
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      (before_[middle] <= index ? low : high) = middle;
    }
    const int first = offsets_[low] + (index - before_[low]) * tile_rows;
    return {low, first, min(tile_rows, offsets_[low + 1] - first)};
  }

 private:
  const int32_t* offsets_;
  int num_experts_;
  int total_;
  int before_[RouterRule::kMaxExperts];
};

}  // namespace quire::cuda
