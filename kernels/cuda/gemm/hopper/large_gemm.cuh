// Gemms of many rows on sm_90a, the kernel template. A CTA takes tiles of 128 rows of x and 128
// to 256 of the weight (out_features) in turn: one warp loads by TMA, two warpgroups multiply 64
// rows each by wgmma. The two CTAs of a cluster have neighbouring rows and the same features: each
// loads half of the weight's tile for both, which halves what the weight takes from L2. Device code
// only.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/gemm/hopper/large_gemm_shape.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/wgmma.cuh"

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
  __device__ void LoadWeight(const LargeGemmTiles<Shape>& tiles, int step, int stage) const {
    const uint32_t full = shared_.full(stage);
    ArriveExpectingBytes(full, Shape::kStageBytes);
    const int half = tiles.rank();
    const int row = p_.num_gates == 0
                        ? tiles.column_tile() * Shape::kTileFeatures + half * Shape::kHalf
                        : tiles.column_tile() * Shape::kHalf + half * p_.num_gates;
    CopyBoxToAll(shared_.weight(stage, half), p_.weight_map, step * Shape::kLineDepth, row, full,
                 (1 << Shape::kClusterSize) - 1);
  }
  __device__ void LoadX(const LargeGemmTiles<Shape>& tiles, int step, int stage) const {
    CopyBox(shared_.x(stage), p_.x_map, step * Shape::kLineDepth, tiles.first_row(),
            shared_.full(stage));
  }

  const LargeGemmParams& p_;
  const LargeGemmShared<Shape>& shared_;
};

// A computing warpgroup.
template <typename Shape>
class LargeGemmComputation {
 public:
  __device__ LargeGemmComputation(const LargeGemmParams& p, const LargeGemmShared<Shape>& shared)
      : p_(p), shared_(shared) {}

  __device__ void Run() {
    WaitForPredecessor();
    for (LargeGemmTiles<Shape> tiles(p_); !tiles.AtEnd(); tiles.Next()) {
      Multiply();
      if (p_.bias.data != nullptr) AddBias(tiles.column_tile());
      if (p_.num_gates == 0) {
        Store<NotGated>(tiles);
      } else if (p_.activation == Activation::kSilu) {
        Store<Silu>(tiles);
      } else {
        Store<GeluTanh>(tiles);
      }
    }
    if (IsStoring()) WaitForStoresRead();
  }

 private:
  using Element = typename Shape::Element;
  using Sums = float[1][Shape::kFragments][4];
  struct NotGated {};
  template <typename Function>
  static constexpr bool kIsGated = !std::is_same_v<Function, NotGated>;

  __device__ void Multiply() {
    const int warpgroup = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
    const int rows_begin = warpgroup * Shape::kOutRows * Shape::kLineBytes;
    int last_stage = -1;
    for (int step = 0; step < p_.num_steps; ++step) {
      Wait(shared_.full(place_.index), place_.parity);
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
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane < Shape::kClusterSize) ArriveInCluster(AddressInCluster(shared_.free(stage), lane));
  }

  // Of a warpgroup, the thread that sends results.
  __device__ bool IsStoring() const { return threadIdx.x % 128 == 0; }
  __device__ void SyncWarpgroup() const { SyncSome(1 + static_cast<int>(threadIdx.x) / 128, 128); }

  // Through shared memory, kOutBlocks blocks of 64 columns at a time; TMA leaves out what lies
  // beyond the result, and stores while the next tile is multiplied.
  template <typename Function>
  __device__ void Store(const LargeGemmTiles<Shape>& tiles) const {
    constexpr int kColumns = kIsGated<Function> ? Shape::kHalf : Shape::kTileFeatures;
    constexpr int kBlockColumns = Shape::kLineDepth;
    constexpr int kBlocks = CeilDiv(kColumns, kBlockColumns);
    // The last may repeat columns of the one before: the same values.
    const auto column_of = [](int block) {
      return std::min(block * kBlockColumns, kColumns - kBlockColumns);
    };
    const int warpgroup = static_cast<int>(threadIdx.x) / 128;
    const int first_row = tiles.first_row() + warpgroup * Shape::kOutRows;
    const int first_column = tiles.column_tile() * kColumns;
#pragma unroll
    for (int first = 0; first < kBlocks; first += Shape::kOutBlocks) {
      if (IsStoring()) WaitForStoresRead();
      SyncWarpgroup();
#pragma unroll
      for (int i = 0; i < Shape::kOutBlocks && first + i < kBlocks; ++i) {
        Leave<Function>(shared_.out(warpgroup) + i * Shape::kOutBlockBytes, column_of(first + i));
      }
      FenceSharedWrites();
      SyncWarpgroup();
      if (IsStoring()) {
#pragma unroll
        for (int i = 0; i < Shape::kOutBlocks && first + i < kBlocks; ++i) {
          StoreBox(shared_.out(warpgroup) + i * Shape::kOutBlockBytes, p_.out_map,
                   first_column + column_of(first + i), first_row);
        }
        CommitStores();
      }
    }
  }
  // The warp's 16 rows of a block of 64 columns, swizzled.
  template <typename Function>
  __device__ void Leave(uint32_t block, int column) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < Shape::kLineDepth / 8; i += 2) {
      const int n = column / 8 + i;
      const uint32_t matrices[4] = {Finish<Function>(n, 0), Finish<Function>(n, 1),
                                    Finish<Function>(n + 1, 0), Finish<Function>(n + 1, 1)};
      StoreMatrices(block + row * Shape::kLineBytes + ((i + lane / 16) ^ (row % 8)) * 16, matrices);
    }
  }
  // Of two neighbouring columns.
  template <typename Function>
  __device__ uint32_t Finish(int n, int half) const {
    const float* sums = &sums_[0][n][2 * half];
    if constexpr (!kIsGated<Function>) {
      return PackPair<Element>(sums[0], sums[1]);
    } else {
      const float* ups = &sums_[0][(n + Shape::kFragments / 2) % Shape::kFragments][2 * half];
      return PackPair<Element>(Gated<Element>(sums[0], ups[0], Function()),
                               Gated<Element>(sums[1], ups[1], Function()));
    }
  }
  // Here, not at a result's end, so that gemms without have no branch there for each pair.
  __device__ void AddBias(int column_tile) {
    const int half_columns = p_.num_gates > 0 ? p_.num_gates : Shape::kHalf;
    const int first = column_tile * (p_.num_gates > 0 ? Shape::kHalf : Shape::kTileFeatures) +
                      static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int n = 0; n < Shape::kFragments; ++n) {
      constexpr int kHalfFragments = Shape::kFragments / 2;
      const int column = first + n % kHalfFragments * 8;
      const int feature = column + n / kHalfFragments * half_columns;
      const bool exists = p_.num_gates > 0 ? column < p_.num_columns : feature < p_.num_columns;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float bias[1] = {0};
        if (exists) p_.bias.LoadAt(feature + i, bias);
        sums_[0][n][i] += bias[0];
        sums_[0][n][i + 2] += bias[0];
      }
    }
  }

  const LargeGemmParams& p_;
  const LargeGemmShared<Shape>& shared_;
  RingPlace place_;
  Sums sums_;
};

// Grid: clusters of two CTAs, one for each multiprocessor, which take pairs of tiles in turn.
// Bytes: x once for every group of row pairs, the weight once for each, mostly from L2.
// Accumulation: in_features in order in float32 on tensor cores. Limit: the tensor cores, whose
// clock follows the power that they take.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    LargeGemm(const __grid_constant__ LargeGemmParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint8_t raw[];
  const LargeGemmShared<Shape> shared(raw);
  ReleaseSuccessor();
  if (threadIdx.x == 0) shared.InitMbarriers();
  SyncCluster();
  if (threadIdx.x < Shape::kComputeThreads) {
    TakeRegisters<Shape::kComputeRegisters>();
    LargeGemmComputation<Shape>(p, shared).Run();
  } else {
    ReleaseRegisters<Shape::kLoadRegisters>();
    if (threadIdx.x < Shape::kComputeThreads + 32 && ElectLane()) {
      LargeGemmLoader<Shape>(p, shared).Run();
    }
  }
  __syncwarp();
  SyncCluster();  // no CTA ends while the other may still write to it
#endif
}

}  // namespace quire::cuda
