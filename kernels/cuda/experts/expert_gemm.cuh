// Gemms of pairs of tokens and experts on sm_90a, the kernel template. A CTA takes tiles in turn:
// up to kWarpgroups * 64 rows of one expert, and kFeatures of its weight's rows. A lane loads the
// weight by TMA; x comes by TMA, too, or three warps gather the tokens' rows by asynchronous
// copies; warpgroups multiply 64 rows each by wgmma. Device code only.
#pragma once

#include <cuda.h>

#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/experts/expert_gemms.h"
#include "kernels/cuda/runtime/async.cuh"
#include "kernels/cuda/runtime/expert_tiles.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/mma.cuh"
#include "kernels/cuda/runtime/vector.cuh"
#include "kernels/cuda/runtime/wgmma.cuh"

namespace quire::cuda {

struct ExpertGemmParams : ExpertGemmCommon {
  CUtensorMap
      weight_map;     // [1, num_experts, out_features, in_features], half a tile's rows, a line
  CUtensorMap x_map;  // [num_pairs, in_features], 64 rows, a line each; unless x is gathered
  int num_steps;      // lines of in_features
  int num_column_tiles;
};

// kIsGated: x is gathered, and results are of gates and ups.
template <typename ElementType, int kFeaturesOfTile, int kNumWarpgroups, bool kIsGated>
struct ExpertGemmShape {
  using Element = ElementType;
  static constexpr bool kGated = kIsGated;
  static constexpr int kFeatures = kFeaturesOfTile;
  static constexpr int kHalf = kFeatures / 2;  // the gates, or the first
  static constexpr int kFragments = kFeatures / 8;
  static constexpr int kColumns = kIsGated ? kHalf : kFeatures;  // of results
  static constexpr int kWarpgroups = kNumWarpgroups;
  static constexpr int kComputeThreads = 128 * kWarpgroups;
  static constexpr int kThreads = kComputeThreads + 128;  // one warpgroup loads
  static constexpr int kGatherThreads = 96;
  static constexpr int kOutRows = 64;  // of a warpgroup
  static constexpr int kTileRows = kWarpgroups * kOutRows;
  static constexpr int kLineBytes = 128;
  static constexpr int kLineDepth = kLineBytes / 2;  // in_features
  static constexpr int kXBytes = kTileRows * kLineBytes;
  static constexpr int kHalfBytes = kHalf * kLineBytes;
  static constexpr int kStageBytes = kXBytes + 2 * kHalfBytes;
  static constexpr int kAlignment = 1024;             // of what is swizzled
  static constexpr int kMaxSharedBytes = 212 * 1024;  // beside what is static
  static constexpr int kStages = (kMaxSharedBytes - 2 * kAlignment) / kStageBytes;
  static constexpr int kSharedBytes = 2 * kAlignment + kStages * kStageBytes;
  // For kernels whose sums need more registers than an equal share.
  static constexpr bool kMovesRegisters = kFragments * kWarpgroups > 32;
  static constexpr int kComputeRegisters = 232, kLoadRegisters = 40;
  static_assert(kStages >= 3 && kStages * 16 <= kAlignment);
};

template <typename Shape>
struct ExpertGemmShared {
  uint32_t mbarriers, stages;

  __device__ explicit ExpertGemmShared(uint8_t* raw)
      : mbarriers((SharedAddress(raw) + Shape::kAlignment - 1) / Shape::kAlignment *
                  Shape::kAlignment),
        stages(mbarriers + Shape::kAlignment) {}

  __device__ uint32_t x(int stage) const { return stages + stage * Shape::kStageBytes; }
  __device__ uint32_t weight(int stage, int half) const {
    return x(stage) + Shape::kXBytes + half * Shape::kHalfBytes;
  }
  __device__ uint32_t full(int stage) const { return mbarriers + stage * 16; }
  __device__ uint32_t free(int stage) const { return full(stage) + 8; }

  __device__ void InitMbarriers() const {
    for (int i = 0; i < Shape::kStages; ++i) {
      InitMbarrier(full(i), 1 + (Shape::kGated ? Shape::kGatherThreads : 1));
      InitMbarrier(free(i), Shape::kComputeThreads / 32);
    }
    PublishMbarriers();
  }
};

// The tiles of a CTA, in turn: those of an expert's rows next to each other.
template <typename Shape>
class ExpertGemmTiles {
 public:
  using Tiles = ExpertTiles<Shape::kThreads>;

  __device__ ExpertGemmTiles(const ExpertGemmParams& p, const Tiles& tiles)
      : p_(p), tiles_(tiles), index_(static_cast<int>(blockIdx.x)) {
    Find();
  }
  __device__ bool AtEnd() const { return index_ >= tiles_.total() * p_.num_column_tiles; }
  __device__ void Next() {
    index_ += static_cast<int>(gridDim.x);
    Find();
  }
  __device__ const ExpertTile& rows() const { return rows_; }
  __device__ int first_column() const { return column_tile_ * Shape::kColumns; }
  // The expert's weight row that a half of the tile begins with.
  __device__ int FirstFeature(int half) const {
    return first_column() + half * (Shape::kGated ? p_.num_columns : Shape::kHalf);
  }

 private:
  __device__ void Find() {
    if (AtEnd()) return;
    const int row_tile = index_ / p_.num_column_tiles;
    column_tile_ = index_ - row_tile * p_.num_column_tiles;
    rows_ = tiles_.Find(row_tile, Shape::kTileRows);
  }

  const ExpertGemmParams& p_;
  const Tiles& tiles_;
  int index_, column_tile_ = 0;
  ExpertTile rows_ = {};
};

// The mbarrier gets this thread's arrival when the thread's asynchronous copies are there.
__device__ __forceinline__ void ArriveWhenGathered(uint32_t mbarrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];\n" ::"r"(mbarrier) : "memory");
}

template <typename Shape>
class ExpertGemmLoader {
 public:
  __device__ ExpertGemmLoader(const ExpertGemmParams& p, const ExpertGemmShared<Shape>& shared,
                              const typename ExpertGemmTiles<Shape>::Tiles& tiles)
      : p_(p), shared_(shared), tiles_(p, tiles) {}

  // One lane.
  __device__ void LoadWeights() {
    ForEachStep([&](int step, int stage) {
      ArriveExpectingBytes(shared_.full(stage), 2 * Shape::kHalfBytes);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        CopyBox(shared_.weight(stage, half), p_.weight_map, step * Shape::kLineDepth,
                tiles_.FirstFeature(half), tiles_.rows().expert, 0, shared_.full(stage));
      }
    });
  }

  // One lane.
  __device__ void LoadX() {
    ForEachStep([&](int step, int stage) {
      const ExpertTile& rows = tiles_.rows();
      const int num_boxes = (rows.num_rows + Shape::kOutRows - 1) / Shape::kOutRows;
      constexpr int kBoxBytes = Shape::kOutRows * Shape::kLineBytes;
      ArriveExpectingBytes(shared_.full(stage), num_boxes * kBoxBytes);
      for (int box = 0; box < num_boxes; ++box) {
        CopyBox(shared_.x(stage) + box * kBoxBytes, p_.x_map, step * Shape::kLineDepth,
                rows.first_row + box * Shape::kOutRows, shared_.full(stage));
      }
    });
  }

  // kGatherThreads threads, of which this is `thread`: eight for a line of a row.
  __device__ void GatherX(int thread) {
    constexpr int kPieces = Shape::kLineBytes / 16, kAtOnce = Shape::kGatherThreads / kPieces;
    constexpr int kMostRows = (Shape::kTileRows + kAtOnce - 1) / kAtOnce;
    const int piece = thread % kPieces, first = thread / kPieces;
    const auto* const x = static_cast<const char*>(p_.x);
    int tokens[kMostRows] = {};
    int expert_row = -1;
    ForEachStep([&](int step, int stage) {
      const ExpertTile& rows = tiles_.rows();
      if (step == 0 || rows.first_row != expert_row) {
        expert_row = rows.first_row;
#pragma unroll
        for (int i = 0; i < kMostRows; ++i) {
          const int row = first + i * kAtOnce;
          if (row < rows.num_rows) tokens[i] = p_.pairs[rows.first_row + row] / p_.top_k;
        }
      }
      const uint32_t to = shared_.x(stage);
      const int column = step * Shape::kLineDepth + piece * 8;
      const bool exists = column < p_.in_features;  // else zeros
#pragma unroll
      for (int i = 0; i < kMostRows; ++i) {
        const int row = first + i * kAtOnce;
        if (row >= rows.num_rows) break;
        CopyAsync16(to + row * Shape::kLineBytes + (piece ^ (row % 8)) * 16,
                    x + (tokens[i] * p_.x_stride + (exists ? column : 0)) * 2, exists);
      }
      ArriveWhenGathered(shared_.full(stage));
    });
  }

 private:
  template <typename Load>
  __device__ __forceinline__ void ForEachStep(const Load& load) {
    RingPlace place;
    for (; !tiles_.AtEnd(); tiles_.Next()) {
      for (int step = 0; step < p_.num_steps; ++step) {
        Wait(shared_.free(place.index), place.parity ^ 1);
        load(step, place.index);
        place.Next(Shape::kStages);
      }
    }
  }

  const ExpertGemmParams& p_;
  const ExpertGemmShared<Shape>& shared_;
  ExpertGemmTiles<Shape> tiles_;
};

// A computing warpgroup.
template <typename Shape>
class ExpertGemmComputation {
 public:
  __device__ ExpertGemmComputation(const ExpertGemmParams& p, const ExpertGemmShared<Shape>& shared,
                                   const typename ExpertGemmTiles<Shape>::Tiles& tiles)
      : p_(p), shared_(shared), tiles_(p, tiles) {}

  __device__ void Run() {
    for (; !tiles_.AtEnd(); tiles_.Next()) {
      Multiply();
      if (p_.bias != nullptr) AddBias();
      if constexpr (Shape::kGated) {
        switch (p_.activation) {
          case Activation::kSilu:
            Store(Silu());
            break;
          case Activation::kGeluTanh:
            Store(GeluTanh());
            break;
          case Activation::kClampedSwish:
            Store(ClampedSwish());
        }
      } else {
        Store(0);
      }
    }
  }

 private:
  using Element = typename Shape::Element;
  static constexpr int kHalfFragments = Shape::kFragments / 2;

  __device__ void Multiply() {
    const int warpgroup = __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 128, 0);
    const int rows_begin = warpgroup * Shape::kOutRows * Shape::kLineBytes;
    int last_stage = -1;
    for (int step = 0; step < p_.num_steps; ++step) {
      Wait(shared_.full(place_.index), place_.parity);
      if constexpr (Shape::kGated) FenceSharedWrites();  // the copies'
      const uint64_t x =
          DescribeMatrix(shared_.x(place_.index) + rows_begin, 8 * Shape::kLineBytes, 0);
      const uint64_t weight =
          DescribeMatrix(shared_.weight(place_.index, 0), 8 * Shape::kLineBytes, 0);
      FenceGemms();
#pragma unroll
      for (int k = 0; k < Shape::kLineDepth / 16; ++k) {
        StartDot<Element>(Advance(x, k * 32), Advance(weight, k * 32), step > 0 || k > 0, sums_);
      }
      CommitGemms();
      WaitForGemmsBut<1>();
      if (last_stage >= 0) Free(last_stage);
      last_stage = place_.index;
      place_.Next(Shape::kStages);
    }
    WaitForGemms<0>(sums_);
    Free(last_stage);
  }
  __device__ void Free(int stage) const {
    if (threadIdx.x % 32 == 0) Arrive(shared_.free(stage));
  }

  __device__ void AddBias() {
    const float* const bias = p_.bias + tiles_.rows().expert * p_.out_features;
    const int within = static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int n = 0; n < Shape::kFragments; ++n) {
      const int column =
          tiles_.first_column() + within + (Shape::kGated ? n % kHalfFragments : n) * 8;
      const int feature = column + (Shape::kGated ? n / kHalfFragments * p_.num_columns : 0);
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const float value = column + i < p_.num_columns ? bias[feature + i] : 0;
        sums_[0][n][i] += value;
        sums_[0][n][i + 2] += value;
      }
    }
  }

  // A lane has two neighbouring columns of two rows of each fragment.
  template <typename Function>
  __device__ void Store(const Function& function) {
    const ExpertTile& rows = tiles_.rows();
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int first_row = static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
    const int first_column = tiles_.first_column() + lane % 4 * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + half * 8;
      if (row >= rows.num_rows) continue;
      const int at = rows.first_row + row;
      Element* const to = static_cast<Element*>(p_.out) +
                          (Shape::kGated ? at : p_.pairs[at]) * p_.out_stride + first_column;
#pragma unroll
      for (int n = 0; n < Shape::kColumns / 8; ++n) {
        if (first_column + n * 8 >= p_.num_columns) break;
        const float(&values)[4] = sums_[0][n];
        float first = values[2 * half], second = values[2 * half + 1];
        if constexpr (Shape::kGated) {
          const float(&ups)[4] = sums_[0][kHalfFragments + n];
          first = Gated<Element>(first, ups[2 * half], function);
          second = Gated<Element>(second, ups[2 * half + 1], function);
        }
        *reinterpret_cast<uint32_t*>(to + n * 8) = PackPair<Element>(first, second);
      }
    }
  }

  const ExpertGemmParams& p_;
  const ExpertGemmShared<Shape>& shared_;
  ExpertGemmTiles<Shape> tiles_;
  RingPlace place_;
  float sums_[1][Shape::kFragments][4];
};

// Grid: a CTA for each multiprocessor, which takes tiles in turn. Bytes: the chosen experts'
// weights once from memory, again from L2 for further tiles of rows; x for each tile of columns,
// from L2. Accumulation: in_features in order in float32 on tensor cores. Limit: memory bandwidth
// for few rows of an expert, else the tensor cores, or L2.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    ExpertGemm(const __grid_constant__ ExpertGemmParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint8_t raw[];
  __shared__ typename ExpertGemmTiles<Shape>::Tiles tiles;
  const ExpertGemmShared<Shape> shared(raw);
  ReleaseSuccessor();
  if (threadIdx.x == 0) shared.InitMbarriers();
  WaitForPredecessor();
  tiles.Make(p.offsets, p.num_experts, Shape::kTileRows);
  if (threadIdx.x < Shape::kComputeThreads) {
    if constexpr (Shape::kMovesRegisters) TakeRegisters<Shape::kComputeRegisters>();
    ExpertGemmComputation<Shape>(p, shared, tiles).Run();
  } else {
    if constexpr (Shape::kMovesRegisters) ReleaseRegisters<Shape::kLoadRegisters>();
    const int thread = static_cast<int>(threadIdx.x) - Shape::kComputeThreads;
    const int warp = __shfl_sync(~0u, thread / 32, 0);
    ExpertGemmLoader<Shape> loader(p, shared, tiles);
    if (warp == 0) {
      if (ElectLane()) loader.LoadWeights();
    } else if constexpr (Shape::kGated) {
      loader.GatherX(thread - 32);
    } else if (warp == 1) {
      if (ElectLane()) loader.LoadX();
    }
  }
#endif
}

}  // namespace quire::cuda
