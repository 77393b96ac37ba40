// Gemms of few rows on sm_90a, the kernel template. A CTA takes a tile of the weight's rows
// (out_features) with up to 64 rows of x. One warp loads by TMA, a warpgroup multiplies by wgmma.
// The CTAs of a cluster share out in_features and add up their sums. Device code only.
#pragma once

#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/gemm/hopper/hopper_gemm_loader.cuh"
#include "kernels/cuda/gemm/hopper/hopper_gemm_shape.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/wgmma.cuh"
#include "kernels/cuda/runtime/wgmma_float8.cuh"

namespace quire::cuda {

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
      Zero();
      if constexpr (Shape::kFloat8) {
        MultiplyFloat8();
      } else {
        Multiply();
      }
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
  using Element = typename Shape::Element;
  using Sums = float[1][Shape::kFragments][4];

  __device__ void Zero() {
#pragma unroll
    for (auto& fragment : sums_[0]) {
#pragma unroll
      for (float& sum : fragment) sum = 0;
    }
  }
  // x times the tile, over this CTA's steps.
  __device__ void Multiply() {
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
          StartDot<Element>(Advance(x, k * 32), Advance(weight, k * 32), true, sums_);
        }
      }
      CommitGemms();
      WaitForGemmsBut<1>();
      if (last_stage >= 0) Free(last_stage);
      last_stage = place_.index;
      place_.Next(shared_.num_stages);
    }
    WaitForGemms<0>(sums_);
    if (last_stage >= 0) Free(last_stage);
  }
  // The same of e4m3. The gemms of a step's second line run while the first one is scaled; what the
  // next step needs is waited for before.
  __device__ void MultiplyFloat8() {
    if (work_.first_step < work_.end_step) Wait(shared_.full(place_.index), place_.parity);
    for (int step = work_.first_step; step < work_.end_step; ++step) {
      StartBlock(0, lines_[0]);
      if constexpr (Shape::kBlocks == 2) StartBlock(1, lines_[1]);
      Factors factors[Shape::kBlocks];
#pragma unroll
      for (int block = 0; block < Shape::kBlocks; ++block) LoadFactors(block, factors[block]);
      // Behind the last step it again: as good as any.
      RingPlace next = place_;
      if (step + 1 < work_.end_step) next.Next(shared_.num_stages);
      Wait(shared_.full(next.index), next.parity);
      if constexpr (Shape::kBlocks == 2) {
        // Nothing is added for a line that is not there. Its gemms run all the same: a branch would
        // serialise the gemms.
        WaitForGemms<1>(lines_[0]);
        AddBlock(0, factors[0], lines_[0]);
        WaitForGemms<0>(lines_[1]);
        if ((step + 1) * Shape::kBlocks <= p_.num_lines) AddBlock(1, factors[1], lines_[1]);
      } else {
        WaitForGemms<0>(lines_[0]);
        AddBlock(0, factors[0], lines_[0]);
      }
      Free(place_.index);
      if (step + 1 == work_.end_step) next.Next(shared_.num_stages);
      place_ = next;
    }
  }
  __device__ void StartBlock(int block, Sums& line) const {
    const uint64_t x = DescribeMatrix(shared_.x(place_.index, block), 8 * Shape::kLineBytes, 0);
    const uint64_t weight =
        DescribeMatrix(shared_.weight(place_.index, block), 8 * Shape::kLineBytes, 0);
    FenceGemms();
#pragma unroll
    for (int k = 0; k < Shape::kLineDepth / 32; ++k) {
      StartFloat8LinesDot(Advance(x, k * 32), Advance(weight, k * 32), k > 0, line);
    }
    CommitGemms();
  }
  // Of a line: what its sums are multiplied with, of rows of x and of each 32 of the weight, unless
  // those have scales of their own.
  struct Factors {
    float upper, lower;
    float shared[Shape::kFragments / 4];
    bool are_all;
  };
  __device__ void LoadFactors(int block, Factors& factors) const {
    const uint32_t scales = shared_.scales(place_.index, block);
    const int row = static_cast<int>(threadIdx.x) / 32 * 16 + lane_ / 4;
    factors.upper = __uint_as_float(LoadShared4(scales + row * 4));
    factors.lower = __uint_as_float(LoadShared4(scales + (row + 8) * 4));
#pragma unroll
    for (float& scale : factors.shared) scale = 1;
    factors.are_all = p_.float8.weight_scales == nullptr;
    // With two lines, one is scaled while the other's gemms run, and no branch may part these.
    if (Shape::kBlocks == 1 && !factors.are_all) {
      factors.are_all = ShareScales(scales + Shape::kTileRows * 4, factors.shared);
    }
  }
  __device__ void AddBlock(int block, const Factors& factors, Sums& line) {
    const uint32_t weight_scales = shared_.scales(place_.index, block) + Shape::kTileRows * 4;
    if (!factors.are_all) ScaleLine(weight_scales, line);
    AddLine(line, factors.upper, factors.lower, factors.shared, sums_);
  }
  __device__ void Free(int stage) const {
    if (lane_ == 0) Arrive(shared_.free(stage));
  }

  // To the first split's CTA, once it has read the last tile's.
  __device__ void GiveSums(int tile) const {
    if (tile != work_.first_tile) Wait(shared_.sums_free(), parity_ ^ 1);
    const int num_threads = Shape::SumsThreads(p_.num_x_rows);
    if (static_cast<int>(threadIdx.x) >= num_threads) return;
    const uint32_t to = AddressInCluster(shared_.sums(work_.split), 0);
    const uint32_t full = AddressInCluster(shared_.sums_full(), 0);
#pragma unroll
    for (int i = 0; i < Shape::kFragments; ++i) {
      SendInCluster(to + i * num_threads * 16, sums_[0][i], full);
    }
  }
  // In the order of the splits.
  __device__ void TakeSums(int tile) {
    if (threadIdx.x == 0) {
      ArriveExpectingBytes(shared_.sums_full(),
                           (p_.num_splits - 1) * Shape::SumsBytes(p_.num_x_rows));
    }
    Wait(shared_.sums_full(), parity_);
    const int num_threads = Shape::SumsThreads(p_.num_x_rows);
    const bool has_rows = static_cast<int>(threadIdx.x) < num_threads;
    for (int split = 1; has_rows && split < p_.num_splits; ++split) {
#pragma unroll
      for (int i = 0; i < Shape::kFragments; ++i) {
        const uint4 part = LoadShared16(shared_.sums(split) + i * num_threads * 16);
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

  // Conditions that all results share are tested once, not at every pair: this code runs once, and
  // most of its time goes into bringing it from memory.
  __device__ void StoreTile(int tile) {
    if constexpr (Shape::kFloat8) {
      const int first = tile * (p_.num_gates > 0 ? Shape::kHalf : Shape::kTileFeatures);
      const int second = first + (p_.num_gates > 0 ? p_.num_gates : Shape::kHalf);
      if (p_.float8.weight_row_scales != nullptr) ScaleWeightRows(p_.float8, first, second, sums_);
    }
    if (p_.bias.data != nullptr) AddBias(tile);
    if (p_.num_gates > 0) {
      switch (p_.activation) {
        case Activation::kGeluTanh:
          Activate(GeluTanh());
          break;
        case Activation::kClampedSwish:
          Activate(ClampedSwish());
          break;
        default:
          Activate(Silu());
      }
      Store<Shape::kFragments / 2, Element>(tile * Shape::kHalf, p_.num_gates);
    } else if (p_.out_is_float) {
      Store<Shape::kFragments, float>(tile * Shape::kTileFeatures, p_.out_features);
    } else {
      Store<Shape::kFragments, Element>(tile * Shape::kTileFeatures, p_.out_features);
    }
  }
  __device__ void AddBias(int tile) {
    const bool is_gated = p_.num_gates > 0;
    const int first = tile * (is_gated ? Shape::kHalf : Shape::kTileFeatures) + lane_ % 4 * 2;
    const int second = first + (is_gated ? p_.num_gates : Shape::kHalf);
#pragma unroll
    for (int i = 0; i < Shape::kFragments; ++i) {
      constexpr int kHalfFragments = Shape::kFragments / 2;
      const int within = i % kHalfFragments * 8;
      const int feature = (i < kHalfFragments ? first : second) + within;
      const int num_left = is_gated ? p_.num_gates - first - within : p_.out_features - feature;
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float bias[1] = {0};
        if (j < num_left) p_.bias.LoadAt(feature + j, bias);
        sums_[0][i][j] += bias[0];
        sums_[0][i][j + 2] += bias[0];
      }
    }
  }
  // Leaves the result of gates and ups where the gates are.
  template <typename Function>
  __device__ void Activate(const Function& function) {
#pragma unroll
    for (int i = 0; i < Shape::kFragments / 2; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        float& gate = sums_[0][i][j];
        gate = Gated<Element>(gate, sums_[0][Shape::kFragments / 2 + i][j], function);
      }
    }
  }
  // A lane has two neighbouring features of two rows in each fragment.
  template <int kCount, typename Out>
  __device__ void Store(int first_feature, int num_features) const {
    const int row =
        work_.row_tile * Shape::kTileRows + static_cast<int>(threadIdx.x) / 32 * 16 + lane_ / 4;
    const int feature = first_feature + lane_ % 4 * 2;
    const bool has_upper = row < p_.num_rows, has_lower = row + 8 < p_.num_rows;
    Out* const upper = static_cast<Out*>(p_.out) + row * p_.out_stride + feature;
    Out* const lower = upper + 8 * p_.out_stride;
    if (!p_.has_pairs)
      return StoreSingly<kCount>(upper, has_upper, has_lower, num_features - feature);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const bool exists = feature + i * 8 < num_features;
      if (exists && has_upper) StorePair(sums_[0][i][0], sums_[0][i][1], upper + i * 8);
      if (exists && has_lower) StorePair(sums_[0][i][2], sums_[0][i][3], lower + i * 8);
    }
  }
  // Results that are no aligned pairs: weights of e4m3 have no other gemm.
  template <int kCount, typename Out>
  __device__ void StoreSingly(Out* upper, bool has_upper, bool has_lower, int num_left) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        if (i * 8 + j >= num_left) break;
        Out* const to = upper + i * 8 + j;
        if (has_upper) StoreOne(sums_[0][i][j], to);
        if (has_lower) StoreOne(sums_[0][i][j + 2], to + 8 * p_.out_stride);
      }
    }
  }
  static __device__ void StoreOne(float value, float* to) { *to = value; }
  static __device__ void StoreOne(float value, Element* to) {
    *reinterpret_cast<uint16_t*>(to) = static_cast<uint16_t>(PackPair<Element>(value, 0.0f));
  }
  static __device__ void StorePair(float first, float second, float* to) {
    *reinterpret_cast<float2*>(to) = make_float2(first, second);
  }
  static __device__ void StorePair(float first, float second, Element* to) {
    *reinterpret_cast<uint32_t*>(to) = PackPair<Element>(first, second);
  }

  const HopperGemmParams& p_;
  const HopperGemmShared<Shape>& shared_;
  const HopperGemmWork& work_;
  const int lane_;
  RingPlace place_;
  uint32_t parity_ = 0;         // of the tile's number
  Sums lines_[Shape::kBlocks];  // of e4m3
  Sums sums_;
};

// Grid: (clusters of num_splits CTAs, which take tiles in turn, tiles of x's rows). Bytes: the
// weight once from memory, for further rows again from L2; x once a tile, from L2, which is what
// limits small tiles. Accumulation: in_features in order in float32 on tensor cores, a split its
// share, then these in order. Limit: memory bandwidth, or latency where the weight is small.
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
