// Gemms with quantized weights on sm_90a, the kernel template: out^T = weight * x^T. A CTA takes
// 128 rows of the weight (out_features) and up to 128 rows of x. One warp loads: steps of the
// weight as they lie in memory, x by TMA. Two or four warpgroups have 64 rows of the weight each: a
// lane reads the codes of its part of wgmma's first operand, makes values of them in registers, and
// multiplies them with x in shared memory; where rows of x are few, quantized_gemm_few.cuh does so.
// Codes are multiplied exactly; the sums of a group are then multiplied by its scale in float32.
// The CTAs of a cluster share out in_features and add up their sums. Device code only.
#pragma once

#include <type_traits>

#include "kernels/cuda/gemm/quantized/operands.cuh"
#include "kernels/cuda/gemm/quantized/quantized_gemm_few.cuh"
#include "kernels/cuda/gemm/quantized/quantized_gemm_shape.cuh"
#include "kernels/cuda/gemm/quantized/quantized_output.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/wgmma.cuh"
#include "kernels/cuda/runtime/wgmma_registers.cuh"

namespace quire::cuda {

// The loading lane.
template <typename Shape>
class QuantizedGemmLoader {
 public:
  __device__ QuantizedGemmLoader(const QuantizedGemmParams& p,
                                 const QuantizedGemmShared<Shape>& shared,
                                 const QuantizedGemmWork& work)
      : p_(p), shared_(shared), work_(work), ctas_(SharingCtas()) {
#pragma unroll
    for (int i = 0; i < Shape::kBlocks; ++i) {
      const int64_t at = int64_t{work.Block<Shape::kBlocks>(p, i)} * p.num_steps;
      blocks_[i] = work.Weight(p) + (at + work.first_step) * p.step_bytes;
    }
  }

  // The first stages' weights are on their way before the predecessor, which makes x, is done.
  __device__ void Run() {
    const int num_early = min(p_.num_stages, work_.end_step - work_.first_step);
    for (int i = 0; i < num_early; ++i) LoadWeight(i);
    PrefetchMap(p_.x_map);
    WaitForPredecessor();
    for (int i = 0; i < num_early; ++i) LoadX(work_.first_step + i, i);
    RingPlace place;
    for (int step = work_.first_step + num_early; step < work_.end_step; ++step) {
      Wait(shared_.free(place.index), place.parity);
      LoadWeight(place.index);
      LoadX(step, place.index);
      place.Next(p_.num_stages);
    }
  }

 private:
  // The next step.
  __device__ void LoadWeight(int stage) {
    const uint32_t full = shared_.full(stage);
    ArriveExpectingBytes(full, Shape::kBoxes * Shape::kBoxBytes + Shape::kBlocks * p_.step_bytes);
#pragma unroll
    for (int i = 0; i < Shape::kBlocks; ++i) {
      CopyBytes(shared_.weight(stage) + i * p_.step_bytes, blocks_[i], p_.step_bytes, full);
      blocks_[i] += p_.step_bytes;
    }
  }
  // All of it, or this CTA's part for all that have the same steps.
  __device__ void LoadX(int step, int stage) const {
    const uint32_t full = shared_.full(stage);
#pragma unroll
    for (int box = 0; box < Shape::kBoxes; ++box) {
      const int column = step * kStepColumns + box * Shape::kBoxColumns;
      if (p_.num_shares == 1) {
        CopyBox(shared_.x(stage, box), p_.x_map, column, work_.first_row, full);
      } else {
        CopyBoxToAll(shared_.x(stage, box) + work_.share * (Shape::kBoxBytes / p_.num_shares),
                     p_.x_map, column,
                     work_.first_row + work_.share * (Shape::kRows / p_.num_shares), full, ctas_);
      }
    }
  }
  // Those that have the same steps, as bits.
  __device__ uint16_t SharingCtas() const {
    uint16_t ctas = 0;
    for (int i = 0; i < p_.num_shares; ++i) ctas |= uint16_t{1} << work_.RankOfShare(p_, i);
    return ctas;
  }

  const QuantizedGemmParams& p_;
  const QuantizedGemmShared<Shape>& shared_;
  const QuantizedGemmWork& work_;
  const uint16_t ctas_;
  const uint8_t* blocks_[Shape::kBlocks];  // where their next steps are
};

// A computing warpgroup, where rows are more than QuantizedFewRows takes.
template <typename Shape>
class QuantizedGemmComputation {
 public:
  __device__ QuantizedGemmComputation(const QuantizedGemmParams& p,
                                      const QuantizedGemmShared<Shape>& shared,
                                      const QuantizedGemmWork& work)
      : p_(p),
        shared_(shared),
        work_(work),
        maker_(p),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        row_(warp_ % 4 * 16 + lane_ / 4),
        first_free_(AddressInCluster(
            shared.free(0), lane_ < p.num_shares ? work.RankOfShare(p, lane_) : ClusterRank())) {}

  // Leaves the sums in shared memory, of this CTA's share of in_features.
  __device__ void Run() {
    if constexpr (kIsSimple) {
      RunSimply();
    } else {
      RunAhead();
    }
    if constexpr (Shape::kGroups == 0) ScaleRows();
    if constexpr (Shape::kScaledInts) TakeSums();
    SyncSome(1, Shape::kComputeThreads);  // nobody reads the ring any more
    StoreSums();
  }

 private:
  using Element = typename Shape::Element;
  static constexpr int kGemms = Shape::kGemms, kParts = Shape::kParts;
  // Step by step, rather than rows' in the end.
  static constexpr bool kScalesSums = Shape::kScalesSums;
  // Whose warpgroups are enough to hide each other's waits, and whose sums leave few registers.
  static constexpr bool kIsSimple = Shape::kWarpgroups == 4 && Shape::kRows == 128;
  // Of x's rows.
  static constexpr int kHalves = Shape::kRows == 128 && kScalesSums ? 2 : 1;
  static constexpr int kFragments = Shape::kFragments / kHalves;  // of a half
  static_assert(kParts % 2 == 0);  // the operands of a step's first part are in the same place
  using Sums = float[1][kFragments][4];
  using Shared = QuantizedGemmShared<Shape>;
  using Operands = typename OperandMaker<Shape>::Operands;

  // The source of the next part is read while the gemms of one part run.
  __device__ void RunSimply() {
    Operands operands;
    Load(0);
    for (int step = work_.first_step; step < work_.end_step; ++step) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        Make(operands);
        Start<0>(operands, part, step == work_.first_step && part == 0);
        // Behind the last step it again: as good as any.
        if (part == kParts - 1 && step + 1 < work_.end_step) next_.Next(p_.num_stages);
        Load((part + 1) % kParts);
        Finish<0, 0>(operands, part);
      }
      Free(place_.index);
      place_ = next_;
    }
  }

  // While the gemms of one part run, the operands of the next one are made; where x's rows are
  // many, in two halves, so that sums of one are scaled while the gemms of the other run.
  __device__ void RunAhead() {
    const int num_parts = (work_.end_step - work_.first_step) * kParts;
    Operands operands[2];
    Load(0);
    Make(operands[0]);
    for (int first = 0; first < num_parts; first += kParts) {
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        const Operands& now = operands[part % 2];
        Operands& other = operands[(part + 1) % 2];
        constexpr int kLast = kParts - 1;
        Start<0>(now, part, first + part == 0);
        if constexpr (kHalves > 1) {
          if (part > 0) Finish<1, 1>(other, part - 1);  // whose operands are still there
          Start<1>(now, part, first + part == 0);
        }
        // Behind the last step it again: as good as any.
        if (part == kLast && first + kParts < num_parts) next_.Next(p_.num_stages);
        Load((part + 1) % kParts);
        Make(other);
        if constexpr (Shape::kRows == 256) Hold(other);
        Finish<0, kHalves - 1>(now, part);
        if (part < kLast) continue;
        // No gemms run from one step to the next: the compiler would wait for each of them.
        if constexpr (kHalves > 1) Finish<1, 0>(now, part);
        Free(place_.index);
        place_.Next(p_.num_stages);
      }
    }
  }

  // From the stage at next_.
  __device__ void Load(int part) {
    if (part == 0) Wait(shared_.full(next_.index), next_.parity);
    maker_.Load(Quarter(), part, source_);
  }
  __device__ void Make(Operands& operands) const { maker_.Make(source_, operands); }
  __device__ uint32_t Quarter() const {
    return shared_.weight(next_.index) + warp_ * (p_.step_bytes / 4);
  }

  // Keeps the compiler from making operands only after a wait that follows, which it does where
  // gemms are long.
  static __device__ void Hold(const Operands& operands) {
    uint32_t bits = 0;
#pragma unroll
    for (const auto& gemm : operands.values) bits |= gemm[0] | gemm[1] | gemm[2] | gemm[3];
    asm volatile("{\n.reg .pred p;\nsetp.eq.u32 p, %0, 1;\n@p membar.cta;\n}\n" ::"r"(bits)
                 : "memory");
  }

  template <int kHalf>
  __device__ void Start(const Operands& operands, int part, bool is_first) {
    const bool accumulates = kScalesSums ? !maker_.IsAtGroup(part) : !is_first;
    constexpr int kFirstRow = kHalf * (Shape::kRows / kHalves);
    // The same in all lanes, which the compiler cannot see: descriptions are made in uniform
    // registers.
    const uint32_t first_box =
        __shfl_sync(~0u, shared_.x(place_.index, 0) + kFirstRow * Shape::kLineBytes, 0);
    FenceGemms();
#pragma unroll
    for (int i = 0; i < kGemms; ++i) {
      // Of 32 bytes of x, four to a line.
      const int gemm = part * kGemms + i;
      const uint64_t line =
          DescribeMatrix(first_box + gemm / 4 * Shape::kBoxBytes, 8 * Shape::kLineBytes, 0);
      const uint64_t x = Advance(line, gemm % 4 * 32);
      StartRowsDot<Element>(operands.values[i], x, i > 0 || accumulates, sums_[kHalf]);
    }
    CommitGemms();
  }

  // Scales the sums of a half where a group ends with this part. kPending: groups of gemms that
  // may still run.
  template <int kHalf, int kPending>
  __device__ void Finish(const Operands& operands, int part) {
    WaitForGemms<kPending>(sums_[kHalf]);
    if (!kScalesSums || !maker_.IsAtGroup(part + 1)) return;
    AddScaled<kHalf>(operands.upper, operands.lower);
  }

  // For all CTAs that bring x here.
  __device__ void Free(int stage) const {
    if (lane_ < p_.num_shares) ArriveInCluster(first_free_ + stage * Shared::kMbarrierStride);
  }
  template <int kHalf>
  __device__ void AddScaled(float upper, float lower) {
#pragma unroll
    for (int i = 0; i < kFragments; ++i) {
      AddScaledSums(sums_[kHalf][0][i], upper, lower, total_[0][kHalf * kFragments + i]);
    }
  }
  // By the scales of the weight's rows.
  __device__ void ScaleRows() {
    const int block = work_.Block<Shape::kBlocks>(p_, warp_ / 4);
    const float* const scales = work_.RowScales(p_) + block * kBlockRows + row_;
    const float upper = scales[0], lower = scales[8];
    const auto unscaled = [&](int i, int j) {
      if constexpr (kScalesSums) return total_[0][i][j];
      return sums_[0][0][i % kFragments][j];
    };
#pragma unroll
    for (int i = 0; i < Shape::kFragments; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) total_[0][i][j] = unscaled(i, j) * (j < 2 ? upper : lower);
    }
  }

  // Those of scaled values are all there is.
  __device__ void TakeSums() {
#pragma unroll
    for (int i = 0; i < Shape::kFragments; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        total_[0][i][j] = sums_[0][0][i % kFragments][j] * (1 / SplitScale<Element>::kLift);
      }
    }
  }

  // A lane has rows r and r + 8 of the weight, of each fragment two neighbouring rows of x.
  __device__ void StoreSums() const {
    const int feature = warp_ / 4 * kBlockRows + row_;
#pragma unroll
    for (int i = 0; i < Shape::kFragments; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int row = i * 8 + lane_ % 4 * 2 + j % 2;
        StoreShared4(shared_.sums(row, feature + j / 2 * 8), __float_as_uint(total_[0][i][j]));
      }
    }
  }

  const QuantizedGemmParams& p_;
  const QuantizedGemmShared<Shape>& shared_;
  const QuantizedGemmWork& work_;
  const OperandMaker<Shape> maker_;
  const int lane_, warp_, row_;
  const uint32_t first_free_;  // of the CTA that the lane tells of free stages
  typename OperandMaker<Shape>::Source source_;
  RingPlace place_;          // of the part whose gemms are started
  RingPlace next_;           // of the part whose operands are made
  Sums sums_[kHalves] = {};  // of a group, or of all where scales are of rows
  float total_[1][Shape::kFragments][4] = {};
};

// Grid: (splits of a cluster and tiles of x's rows, tiles of the weight's rows); of experts the
// other way round, with as many tiles of x's rows as there may be, of which the last ones do not
// exist. Bytes: the weight once
// from memory, for further tiles of x's rows again from L2; x once a tile, from L2. Accumulation: a
// group's columns in order in float32 on tensor cores, groups in order, a split its share, then
// these in order. Limit: memory bandwidth for few rows, tensor cores for many.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kCtasPerSm)
    QuantizedGemm(const __grid_constant__ QuantizedGemmParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint8_t raw[];
  __shared__ ExpertTile rows;  // of experts; Route is complete (kernels/cuda/README.md)
  const QuantizedGemmShared<Shape> shared(raw, p);
  if (p.offsets == nullptr) ReleaseSuccessor();
  if (threadIdx.x == 32) shared.InitMbarriers(p);
  if (p.offsets != nullptr) {
    ShowExpertTile(p.offsets, p.num_experts, Shape::kRows, QuantizedGemmWork::RowTile(p), &rows);
  }
  const bool in_cluster = p.num_splits * p.num_shares > 1;
  if (in_cluster) SyncCluster();
  // For `rows`, too, which a cluster's barrier does not show.
  if (!in_cluster || p.offsets != nullptr) __syncthreads();
  const QuantizedGemmWork work(p, Shape::kRows, rows);
  if (work.IsEmpty()) return WaitForPredecessor();
  if (threadIdx.x < Shape::kComputeThreads) {
    if constexpr (Shape::kMovesRegisters) TakeRegisters<Shape::kComputeRegisters>();
    WaitForPredecessor();
    if (p.offsets != nullptr) ReleaseSuccessor();
    using Computation = std::conditional_t<Shape::kByWarps, QuantizedFewRows<Shape>,
                                           QuantizedGemmComputation<Shape>>;
    Computation(p, shared, work).Run();
    in_cluster ? PublishInCluster() : SyncSome(1, Shape::kComputeThreads);
    QuantizedOutput<Shape, QuantizedGemmShared<Shape>>(p, shared, work).Run();
  } else {
    if constexpr (Shape::kMovesRegisters) ReleaseRegisters<Shape::kLoadRegisters>();
    if (threadIdx.x < Shape::kComputeThreads + 32 && ElectLane()) {
      QuantizedGemmLoader<Shape>(p, shared, work).Run();
    }
    __syncwarp();
    if (in_cluster) PublishInCluster();
  }
  if (in_cluster) EndCluster();
#endif
}

}  // namespace quire::cuda
