// Gemms of many rows on sm_90a, the kernel template. A CTA takes tiles of 128 rows of x and 128
// to 256 of the weight (out_features) in turn: one warp loads by TMA, two warpgroups multiply 64
// rows each by wgmma. The two CTAs of a cluster have neighbouring rows and the same features: each
// loads half of the weight's tile for both, which halves what the weight takes from L2. Device code
// only.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/gemm/hopper/large_gemm_loader.cuh"
#include "kernels/cuda/gemm/hopper/large_gemm_shape.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/wgmma.cuh"
#include "kernels/cuda/runtime/wgmma_float8.cuh"

namespace quire::cuda {

// A computing warpgroup.
template <typename Shape>
class LargeGemmComputation {
 public:
  __device__ LargeGemmComputation(const LargeGemmParams& p, const LargeGemmShared<Shape>& shared)
      : p_(p), shared_(shared) {}

  __device__ void Run() {
    if constexpr (Shape::kFloat8) {
      if (threadIdx.x >= 128) ArriveSome(kTurn, Shape::kComputeThreads);  // the first one's turn
    }
    WaitForPredecessor();
    for (LargeGemmTiles<Shape> tiles(p_); !tiles.AtEnd(); tiles.Next()) {
      if constexpr (Shape::kFloat8) {
        MultiplyFloat8();
        if (p_.float8.weight_row_scales != nullptr) ScaleRows(tiles.column_tile());
      } else {
        Multiply();
      }
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
  static constexpr int kTurn = 3;  // the first of the named barriers for turns
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
  // The warpgroups start gemms in turn, so that one adds up while the other's run.
  __device__ void MultiplyFloat8() {
    const int warpgroup = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
    const int rows_begin = warpgroup * Shape::kOutRows * Shape::kLineBytes;
    const int row =
        static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
    const bool has_weight_scales = p_.float8.weight_scales != nullptr;
#pragma unroll
    for (auto& fragment : sums_[0]) fragment[0] = fragment[1] = fragment[2] = fragment[3] = 0;
    for (int step = 0; step < p_.num_steps; ++step) {
      Wait(shared_.full(place_.index), place_.parity);
      const uint64_t x =
          DescribeMatrix(shared_.x(place_.index) + rows_begin, 8 * Shape::kLineBytes, 0);
      const uint64_t weight =
          DescribeMatrix(shared_.weight(place_.index, 0), 8 * Shape::kLineBytes, 0);
      SyncSome(kTurn + warpgroup, Shape::kComputeThreads);
      FenceGemms();
#pragma unroll
      for (int k = 0; k < Shape::kLineDepth / 32; ++k) {
        StartFloat8LinesDot(Advance(x, k * 32), Advance(weight, k * 32), k > 0, line_);
      }
      CommitGemms();
      ArriveSome(kTurn + (warpgroup ^ 1), Shape::kComputeThreads);
      const uint32_t scales = shared_.scales(place_.index);
      const float upper = __uint_as_float(LoadShared4(scales + row * 4));
      const float lower = __uint_as_float(LoadShared4(scales + (row + 8) * 4));
      const uint32_t weight_scales = scales + Shape::kTileRows * 4;
      float shared[Shape::kFragments / 4];
#pragma unroll
      for (float& scale : shared) scale = 1;
      const bool is_done = !has_weight_scales || ShareScales(weight_scales, shared);
      WaitForGemms<0>(line_);
      // One way to add up: ways that join would move all sums to the same registers.
      if (!is_done) ScaleLine(weight_scales, line_);
      AddLine(line_, upper, lower, shared, sums_);
      Free(place_.index);
      place_.Next(Shape::kStages);
    }
  }
  __device__ void ScaleRows(int column_tile) {
    const bool is_gated = p_.num_gates > 0;
    const int first = column_tile * (is_gated ? Shape::kHalf : Shape::kTileFeatures);
    ScaleWeightRows(p_.float8, first, first + (is_gated ? p_.num_gates : Shape::kHalf), sums_);
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
    constexpr int kBlockColumns = Shape::kOutColumns;
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
    for (int i = 0; i < Shape::kOutColumns / 8; i += 2) {
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
  Sums line_;  // of e4m3
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
