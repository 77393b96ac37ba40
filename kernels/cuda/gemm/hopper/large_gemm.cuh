// Gemms of many rows on sm_90a, the kernel template. A CTA takes tiles of 128 or 192 rows of x and
// 128 to 256 of the weight (out_features) in turn: lanes of three warps load by TMA, two or three
// warpgroups multiply 64 rows each by wgmma. The two CTAs of a pair have neighbouring rows and the
// same features, and each loads half of the weight's tile for both, which halves what the weight
// takes from L2; or they have the same rows, and share x so. Where tiles are few, two pairs, a
// cluster, share out in_features and add up their sums. Device code only.
#pragma once

#include "kernels/cuda/gemm/hopper/large_gemm_loader.cuh"
#include "kernels/cuda/gemm/hopper/large_gemm_output.cuh"
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
      : p_(p), shared_(shared), tiles_(p) {}

  __device__ void Run() {
    if constexpr (Shape::kFloat8) {
      // The first one's turn.
      if (threadIdx.x >= Shape::kComputeThreads - 128) ArriveSome(kTurn, kTurnThreads);
    }
    WaitForPredecessor();
    const LargeGemmOutput<Shape> output(p_, shared_);
    for (; !tiles_.AtEnd(); tiles_.Next()) {
      if constexpr (Shape::kFloat8) {
        MultiplyFloat8();
      } else {
        Multiply();
      }
      output.Run(tiles_, sums_);
    }
    output.WaitForStores();
  }

 private:
  using Element = typename Shape::Element;
  using Sums = typename LargeGemmOutput<Shape>::Sums;
  static constexpr int kTurn = 4;               // the first of the named barriers for turns
  static constexpr int kTurnThreads = 2 * 128;  // who waits, and whose turn it was

  __device__ void Multiply() {
    const int warpgroup = __shfl_sync(0xffffffff, static_cast<int>(threadIdx.x) / 128, 0);
    const int rows_begin = warpgroup * Shape::kOutRows * Shape::kLineBytes;
    const int first_step = tiles_.first_step(), end_step = tiles_.end_step();
    int last_stage = -1;
    for (int step = first_step; step < end_step; ++step) {
      Wait(shared_.full(place_.index), place_.parity);
      const uint64_t x =
          DescribeMatrix(shared_.x(place_.index) + rows_begin, 8 * Shape::kLineBytes, 0);
      const uint64_t weight =
          DescribeMatrix(shared_.weight(place_.index, 0), 8 * Shape::kLineBytes, 0);
      FenceGemms();
#pragma unroll
      for (int k = 0; k < Shape::kLineDepth / 16; ++k) {
        StartDot<Element>(Advance(x, k * 32), Advance(weight, k * 32), step > first_step || k > 0,
                          sums_);
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
    int row = static_cast<int>(threadIdx.x) / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
    asm("" : "+r"(row));  // kept in a register: else it is made anew where gemms wait for it
    const int next_warpgroup = warpgroup + 1 < Shape::kWarpgroups ? warpgroup + 1 : 0;
    const bool has_weight_scales = p_.float8.weight_scales != nullptr;
#pragma unroll
    for (auto& fragment : sums_[0]) fragment[0] = fragment[1] = fragment[2] = fragment[3] = 0;
    for (int step = tiles_.first_step(); step < tiles_.end_step(); ++step) {
      Wait(shared_.full(place_.index), place_.parity);
      const uint64_t x =
          DescribeMatrix(shared_.x(place_.index) + rows_begin, 8 * Shape::kLineBytes, 0);
      const uint64_t weight =
          DescribeMatrix(shared_.weight(place_.index, 0), 8 * Shape::kLineBytes, 0);
      SyncSome(kTurn + warpgroup, kTurnThreads);
      FenceGemms();
#pragma unroll
      for (int k = 0; k < Shape::kLineDepth / 32; ++k) {
        StartFloat8LinesDot(Advance(x, k * 32), Advance(weight, k * 32), k > 0, line_);
      }
      CommitGemms();
      ArriveSome(kTurn + next_warpgroup, kTurnThreads);
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
  __device__ void Free(int stage) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (lane < Shape::kPairSize) {
      ArriveInCluster(AddressInCluster(shared_.free(stage), tiles_.first_of_pair() + lane));
    }
  }

  const LargeGemmParams& p_;
  const LargeGemmShared<Shape>& shared_;
  LargeGemmTiles<Shape> tiles_;
  RingPlace place_;
  Sums line_;  // of e4m3
  Sums sums_;
};

// Grid: clusters of pairs of CTAs, one CTA for each multiprocessor, which take pairs of tiles in
// turn; where a cluster's pairs share out in_features, a cluster for each pair of tiles. Bytes: x
// once for every group of row pairs, the weight once for each, mostly from L2. Accumulation:
// in_features in order in float32 on tensor cores, a split its share, then these. Limit: the tensor
// cores, whose clock follows the power that they take.
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
    const int warp = static_cast<int>(threadIdx.x - Shape::kComputeThreads) / 32;
    const int loader = __shfl_sync(~0u, warp, 0);
    if (loader == 0) {
      if (ElectLane()) LargeGemmXLoader<Shape>(p, shared).Run();
    } else if (loader <= 2) {
      if (ElectLane()) LargeGemmWeightLoader<Shape>(p, shared, loader - 1).Run();
    }
    __syncwarp();
    if (p.num_splits > 1) PublishInCluster();  // the others hand their sums over
  }
  __syncwarp();
  EndCluster();
#endif
}

}  // namespace quire::cuda
