// Gemms of few rows on sm_90a, the kernel template. A CTA takes a tile of the weight's rows
// (out_features) with all rows of x, so that the weight is read once. One warp loads by TMA, a
// warpgroup multiplies by wgmma. The CTAs of a cluster share out in_features and add up their sums.
// Device code only.
#pragma once

#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/gemm/hopper/hopper_gemm_shape.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/wgmma.cuh"

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
        place.Advance(1, shared_.num_stages);
      }
    }
  }

 private:
  __device__ void LoadWeight(int tile, int step, int stage) const {
    const uint32_t full = shared_.full(stage);
    ArriveExpectingBytes(full, Shape::StageBytes(shared_.num_x_rows));
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
      const int depth = step * Shape::kStepDepth + block * Shape::kLineDepth;
      const uint32_t to = shared_.weight(stage, block);
      const int first = p_.num_gates == 0 ? tile * Shape::kTileFeatures : tile * Shape::kHalf;
      const int second = first + (p_.num_gates == 0 ? Shape::kHalf : p_.num_gates);
      CopyBox(to, p_.weight_map, depth, first, full);
      CopyBox(to + Shape::kWeightBytes / 2, p_.weight_map, depth, second, full);
    }
  }
  __device__ void LoadX(int step, int stage) const {
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
      CopyBox(shared_.x(stage, block), p_.x_map,
              step * Shape::kStepDepth + block * Shape::kLineDepth, 0, shared_.full(stage));
    }
  }

  const HopperGemmParams& p_;
  const HopperGemmShared<Shape>& shared_;
  const HopperGemmWork& work_;
};

// A computing warpgroup.
template <typename Shape>
class HopperGemmComputation {
 public:
  __device__ HopperGemmComputation(const HopperGemmParams& p, const HopperGemmShared<Shape>& shared,
                                   const HopperGemmWork& work)
      : p_(p), shared_(shared), work_(work), lane_(threadIdx.x % 32) {}

  __device__ void Run() {
    WaitForPredecessor();
    for (int tile = work_.first_tile; tile < p_.num_tiles; tile += work_.tile_stride) {
      Multiply();
      if (work_.split > 0) {
        GiveSums(tile);
      } else {
        if (p_.num_splits > 1) TakeSums(tile);
        StoreTile(tile);
      }
      parity_ ^= 1;
    }
  }

 private:
  using Sums = float[1][Shape::kFragments][4];

  // x times the tile, over this CTA's steps.
  __device__ void Multiply() {
#pragma unroll
    for (auto& fragment : sums_[0]) {
#pragma unroll
      for (float& sum : fragment) sum = 0;
    }
    int last_stage = -1;
    for (int step = work_.first_step; step < work_.end_step; ++step) {
      Wait(shared_.full(place_.index), place_.parity);
      FenceGemms();
#pragma unroll
      for (int block = 0; block < Shape::kBlocks; ++block) {
        const uint64_t x = DescribeMatrix(shared_.x(place_.index, block), 8 * Shape::kLineBytes, 0);
        const uint64_t weight =
            DescribeMatrix(shared_.weight(place_.index, block), 8 * Shape::kLineBytes, 0);
#pragma unroll
        for (int k = 0; k < Shape::kLineDepth / 16; ++k) {
          StartDot<typename Shape::Element>(Advance(x, k * 32), Advance(weight, k * 32), true,
                                            sums_);
        }
      }
      CommitGemms();
      WaitForGemmsBut<1>();
      if (last_stage >= 0) Free(last_stage);
      last_stage = place_.index;
      place_.Advance(1, shared_.num_stages);
    }
    WaitForGemms<0>(sums_);
    if (last_stage >= 0) Free(last_stage);
  }
  __device__ void Free(int stage) const {
    if (lane_ == 0) Arrive(shared_.free(stage));
  }

  // To the first split's CTA, once it has read the last tile's.
  __device__ void GiveSums(int tile) const {
    if (tile != work_.first_tile) Wait(shared_.sums_free(), parity_ ^ 1);
    const uint32_t to = AddressInCluster(shared_.sums(work_.split), 0);
    const uint32_t full = AddressInCluster(shared_.sums_full(), 0);
#pragma unroll
    for (int i = 0; i < Shape::kFragments; ++i) {
      SendInCluster(to + i * Shape::kComputeThreads * 16, sums_[0][i], full);
    }
  }
  // In the order of the splits.
  __device__ void TakeSums(int tile) {
    if (threadIdx.x == 0) {
      ArriveExpectingBytes(shared_.sums_full(), (p_.num_splits - 1) * Shape::kSumsBytes);
    }
    Wait(shared_.sums_full(), parity_);
    for (int split = 1; split < p_.num_splits; ++split) {
#pragma unroll
      for (int i = 0; i < Shape::kFragments; ++i) {
        const uint4 part = LoadShared16(shared_.sums(split) + i * Shape::kComputeThreads * 16);
        sums_[0][i][0] += __uint_as_float(part.x);
        sums_[0][i][1] += __uint_as_float(part.y);
        sums_[0][i][2] += __uint_as_float(part.z);
        sums_[0][i][3] += __uint_as_float(part.w);
      }
    }
    if (tile + work_.tile_stride >= p_.num_tiles) return;
    for (int split = 1; split < p_.num_splits; ++split) {
      ArriveInCluster(AddressInCluster(shared_.sums_free(), split));
    }
  }

  // A lane has two neighbouring features of two rows in each fragment.
  __device__ void StoreTile(int tile) {
    const int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane_ / 4;
    const int within = lane_ % 4 * 2;
    if (p_.num_gates == 0) {
#pragma unroll
      for (int i = 0; i < Shape::kFragments; ++i) {
        const int feature = tile * Shape::kTileFeatures + i * 8 + within;
        AddBias(feature, sums_[0][i]);
        StorePairs(sums_[0][i], row, feature, p_.out_features);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < Shape::kFragments / 2; ++i) {
      const int feature = tile * Shape::kHalf + i * 8 + within;
      auto& gates = sums_[0][i];
      auto& ups = sums_[0][Shape::kFragments / 2 + i];
      AddBias(feature, gates);
      AddBias(feature + p_.num_gates, ups);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        gates[j] = Gated<typename Shape::Element>(gates[j], ups[j], p_.activation);
      StorePairs(gates, row, feature, p_.num_gates);
    }
  }
  __device__ void AddBias(int feature, float (&values)[4]) const {
    if (p_.bias.data == nullptr) return;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float bias[1] = {0};
      if (feature + i < p_.out_features) p_.bias.LoadAt(feature + i, bias);
      values[i] += bias[0];
      values[i + 2] += bias[0];
    }
  }
  __device__ void StorePairs(const float (&values)[4], int row, int feature,
                             int num_features) const {
    if (row < p_.num_rows) StorePair(values[0], values[1], row, feature, num_features);
    if (row + 8 < p_.num_rows) StorePair(values[2], values[3], row + 8, feature, num_features);
  }
  __device__ void StorePair(float first, float second, int row, int feature,
                            int num_features) const {
    if (feature >= num_features) return;
    const int64_t at = row * p_.out_stride + feature;
    const bool is_pair = p_.stores_pairs && feature + 1 < num_features;
    if (p_.out_is_float) {
      float* to = static_cast<float*>(p_.out) + at;
      if (is_pair) {
        *reinterpret_cast<float2*>(to) = make_float2(first, second);
      } else {
        to[0] = first;
        if (feature + 1 < num_features) to[1] = second;
      }
      return;
    }
    auto* to = static_cast<typename Shape::Element*>(p_.out) + at;
    if (is_pair) {
      *reinterpret_cast<uint32_t*>(to) = PackPair<typename Shape::Element>(first, second);
    } else {
      Store<1>({first}, to);
      if (feature + 1 < num_features) Store<1>({second}, to + 1);
    }
  }

  const HopperGemmParams& p_;
  const HopperGemmShared<Shape>& shared_;
  const HopperGemmWork& work_;
  const int lane_;
  RingPlace place_;
  uint32_t parity_ = 0;  // of the tile's number
  Sums sums_;
};

// Grid: clusters of num_splits CTAs, which take tiles of out_features in turn. Bytes: the weight
// once from memory; x once a tile, from L2, which is what limits small tiles. Accumulation:
// in_features in order in float32 on tensor cores, a split its share, then these in order. Limit:
// memory bandwidth.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    HopperGemm(const __grid_constant__ HopperGemmParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint8_t raw[];
  const HopperGemmShared<Shape> shared(raw, p);
  ReleaseSuccessor();
  if (threadIdx.x == 0) shared.InitMbarriers(p);
  const bool in_cluster = p.num_splits > 1;
  in_cluster ? SyncCluster() : __syncthreads();
  const HopperGemmWork work(p);
  if (threadIdx.x < Shape::kComputeThreads) {
    HopperGemmComputation<Shape>(p, shared, work).Run();
  } else if (ElectLane()) {
    HopperGemmLoader<Shape>(p, shared, work).Run();
  }
  __syncwarp();
  if (in_cluster) SyncCluster();  // no CTA ends while others may still write to it
#endif
}

}  // namespace quire::cuda
