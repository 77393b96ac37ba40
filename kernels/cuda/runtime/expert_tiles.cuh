// The pairs of a step (Routing) in tiles of rows, each of one expert, as kernels with experts'
// weights go through them: no host knows how many there are. Device code only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/runtime/prefix_sums.cuh"
#include "kernels/experts.h"

namespace quire::cuda {

// A tile's expert, and its rows among the sorted pairs.
struct ExpertTile {
  int expert;
  int first_row, num_rows;
};

// What a lane has of the experts: kCount that follow each other, or less.
template <bool kIsEarly, int kCount>
struct LaneExperts {
  int offsets[kCount + 1];

  __device__ LaneExperts(const int32_t* from, int num_experts) {
#pragma unroll
    for (int i = 0; i <= kCount; ++i) {
      const int32_t* const at = from + min(First() + i, num_experts);
      offsets[i] = kIsEarly ? __ldcg(at) : *at;
    }
  }
  static __device__ int First() { return static_cast<int>(threadIdx.x) % 32 * kCount; }
  __device__ int NumTiles(int i, int tile_rows) const {
    return (offsets[i + 1] - offsets[i] + tile_rows - 1) / tile_rows;
  }
  // The tile numbered `index` among these experts' tiles. There are more than `index` of them.
  __device__ ExpertTile Find(int index, int tile_rows) const {
    ExpertTile tile = {};
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int count = NumTiles(i, tile_rows);
      if (index >= 0 && index < count) {
        const int row = offsets[i] + index * tile_rows;
        tile = {First() + i, row, min(tile_rows, offsets[i + 1] - row)};
      }
      index -= count;
    }
    return tile;
  }
};

template <bool kIsEarly, int kCount>
__device__ ExpertTile FindAmongLanes(const int32_t* offsets, int num_experts, int tile_rows,
                                     int index) {
  const LaneExperts<kIsEarly, kCount> experts(offsets, num_experts);
  int own = 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) own += experts.NumTiles(i, tile_rows);
  const int up_to_lane = UpToLane(own);
  const unsigned int beyond = __ballot_sync(~0u, up_to_lane > index);
  if (beyond == 0) return {};
  const ExpertTile tile = experts.Find(index - (up_to_lane - own), tile_rows);
  const int finder = __ffs(beyond) - 1;
  return {__shfl_sync(~0u, tile.expert, finder), __shfl_sync(~0u, tile.first_row, finder),
          __shfl_sync(~0u, tile.num_rows, finder)};
}

// The tile numbered `index`, found by a warp; none of its rows exist beyond the last one. Once
// Route is complete. kIsEarly: that is known before the kernel's own wait (kernels/cuda/README.md),
// so offsets are read past L1, where a step's before may be.
template <bool kIsEarly>
__device__ ExpertTile FindExpertTile(const int32_t* offsets, int num_experts, int tile_rows,
                                     int index) {
  static_assert(RouterRule::kMaxExperts == 32 * 32);
  const auto find = [&]<int kCount>(std::integral_constant<int, kCount>) {
    return FindAmongLanes<kIsEarly, kCount>(offsets, num_experts, tile_rows, index);
  };
  if (num_experts <= 32) return find(std::integral_constant<int, 1>());
  if (num_experts <= 128) return find(std::integral_constant<int, 4>());
  if (num_experts <= 256) return find(std::integral_constant<int, 8>());
  return find(std::integral_constant<int, 32>());
}

// By the first warp of a CTA, into shared memory, for those that wait at a barrier after it: the
// tile that a kernel finds before its own wait.
__device__ inline void ShowExpertTile(const int32_t* offsets, int num_experts, int tile_rows,
                                      int index, ExpertTile* shared) {
  if (threadIdx.x >= 32) return;
  const ExpertTile tile = FindExpertTile<true>(offsets, num_experts, tile_rows, index);
  if (threadIdx.x == 0) *shared = tile;
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
