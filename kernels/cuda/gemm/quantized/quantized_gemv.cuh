// Gemms of quantized weights with up to 8 rows of x, the kernel template: out^T = weight * x^T. A
// CTA takes tiles of some strips of 16 of the weight's rows in turn; its warps share out the
// strips, two each, and then the steps. Each warp has a ring of steps of its own, across tiles,
// which one lane fills by bulk copies, so that no warp waits for another; x, in bytes much less, is
// in shared memory as a whole. Tensor cores multiply (mma). Device code only.
#pragma once

#include "kernels/cuda/gemm/quantized/operands.cuh"
#include "kernels/cuda/gemm/quantized/quantized_gemv_output.cuh"
#include "kernels/cuda/gemm/quantized/quantized_gemv_x.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/mma.cuh"

namespace quire::cuda {

template <typename Shape>
class QuantizedGemvWarp {
 public:
  __device__ QuantizedGemvWarp(const QuantizedGemmParams& p,
                               const QuantizedGemvShared<Shape>& shared,
                               const QuantizedGemvWork& work)
      : p_(p),
        shared_(shared),
        work_(work),
        maker_(p),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        unit_shift_(work.unit_shift),
        unit_(warp_ & (1 << work.unit_shift) - 1),
        share_(warp_ >> work.unit_shift) {
    first_step_ = share_ * work.num_steps >> work.share_shift();
    num_steps_ = ((share_ + 1) * work.num_steps >> work.share_shift()) - first_step_;
    load_tile_ = static_cast<int>(blockIdx.y);
    SelectTile(work.first_step);
  }

  // The first steps, which do not depend on the predecessor.
  __device__ void Begin(const QuantizedGemvWork& work) {
    if (ElectLane()) {
      for (int i = 0; i < p_.num_stages; ++i) InitMbarrier(shared_.full(warp_, i), 1);
      PublishMbarriers();
      FenceSharedWrites();
    }
    __syncwarp();
    for (int i = 0; i < p_.num_stages && load_tile_ < p_.num_tiles; ++i) {
      LoadNext(i, work.first_step);
    }
  }

  // The sums of a tile's strips, over this warp's steps. Once x is in shared memory.
  __device__ void Run(const QuantizedGemvWork& work) {
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) Clear(totals_[strip]);
    const int lane_row = Shape::kFloat8Tiles ? lane_ / 4 : lane_ % 8;
    // Rows that do not exist are computed from the first one: nothing reads their results.
    const int row = lane_row < work_.num_rows ? lane_row : 0;
    uint32_t x = shared_.x(row) + first_step_ * kStepColumns * 2 +
                 (Shape::kFloat8Tiles ? lane_ % 4 * 32 : lane_ / 8 * 16);
    for (int step = 0; step < num_steps_; ++step) {
      Wait(shared_.full(warp_, place_.index), place_.parity);
      Step(shared_.stage(warp_, place_.index), first_step_ + step, x);
      x += kStepColumns * 2;
      __syncwarp();
      if (load_tile_ < p_.num_tiles) LoadNext(place_.index, work.first_step);
      place_.Next(p_.num_stages);
    }
  }

  // Leaves them, times the scales of the weight's rows where there are some.
  __device__ void StoreSums(int tile, int buffer) const {
    const int row = lane_ % 4 * 2;  // of x
    const uint32_t to =
        shared_.sums(buffer, share_, row, unit_ * kStrips * kQuarterRows + maker_.SumsRow());
    const uint32_t stride = shared_.sums_stride();
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) {
      const Sums& totals = totals_[strip];
      float upper = Shape::kRawInts ? kUnit : 1, lower = upper;
      if constexpr (Shape::kGroups == 0) {
        const int weight_row = Strip(tile, strip) * kQuarterRows + maker_.SumsRow();
        const float* const scales = work_.RowScales(p_) + weight_row;
        upper *= scales[0], lower *= scales[8];
      }
      const uint32_t at = to + strip * kQuarterRows * 4;
      if (row < work_.num_rows) {
        StoreShared4(at, __float_as_uint(totals[0] * upper));
        StoreShared4(at + 32, __float_as_uint(totals[2] * lower));
      }
      if (row + 1 < work_.num_rows) {
        StoreShared4(at + stride, __float_as_uint(totals[1] * upper));
        StoreShared4(at + stride + 32, __float_as_uint(totals[3] * lower));
      }
    }
  }

 private:
  using Element = typename Shape::Element;
  // Of a lane: two rows of x, first in its upper row of a strip, then in its lower one.
  using Sums = float[4];
  using Operands = typename OperandMaker<Shape>::Operands;
  using Source = typename OperandMaker<Shape>::Source;
  static constexpr int kGemms = Shape::kGemms, kParts = Shape::kParts, kStrips = Shape::kStrips;
  static constexpr float kUnit = 0x1p24f;  // raw integers are multiples of 2^-24

  // The strip of the weight's rows that this warp has of a tile as its first or second: two of a
  // block, or of a gated gemm gates and their ups. Beyond the last ones, the last ones again.
  __device__ int Strip(int tile, int strip) const {
    const int unit = (tile << unit_shift_) + unit_;
    if (p_.num_gates == 0) {
      return min(unit, p_.num_blocks * kBlockStrips / kStrips - 1) * kStrips + strip;
    }
    const int num_gate_strips = p_.num_gates / kQuarterRows;
    return min(unit, num_gate_strips - 1) + strip * num_gate_strips;
  }

  __device__ void SelectTile(int cta_step) {
    load_left_ = num_steps_;
    const int strip = Strip(load_tile_, 0), step = cta_step + first_step_;
    codes_ = work_.Weight(p_) +
             (static_cast<int64_t>(strip / kBlockStrips) * p_.num_steps + step) * p_.step_bytes +
             strip % kBlockStrips * (p_.step_bytes / kBlockStrips);
    if constexpr (Shape::kScaleBytes > 0) {
      scales_ = p_.tile_scales + static_cast<int64_t>(step) * p_.num_blocks * kBlockRows +
                strip * kQuarterRows;
    }
  }

  // Into a stage that no lane reads any more; the whole warp.
  __device__ void LoadNext(int stage, int cta_step) {
    if (num_steps_ > 0 && ElectLane()) {
      const uint32_t full = shared_.full(warp_, stage), to = shared_.stage(warp_, stage);
      const int bytes = p_.step_bytes / kBlockStrips;
      ArriveExpectingBytes(full, p_.stage_bytes);
      CopyBytes(to, codes_, bytes, full);
      CopyBytes(to + bytes, codes_ + p_.pair_bytes, bytes, full);
      if constexpr (Shape::kScaleBytes > 0) {
        CopyBytes(to + kStrips * bytes, scales_, Shape::kScaleBytes, full);
        CopyBytes(to + kStrips * bytes + Shape::kScaleBytes, scales_ + p_.pair_scales,
                  Shape::kScaleBytes, full);
      }
    }
    codes_ += p_.step_bytes;
    if constexpr (Shape::kScaleBytes > 0) scales_ += p_.num_blocks * kBlockRows;
    if (--load_left_ > 0) return;
    load_tile_ += static_cast<int>(gridDim.y);
    if (load_tile_ < p_.num_tiles) SelectTile(cta_step);
  }

  __device__ void Step(uint32_t stage, int step, uint32_t x) {
    const int bytes = p_.step_bytes / kBlockStrips;
    Sums sums[kStrips];
#pragma unroll
    for (int strip = 0; strip < kStrips; ++strip) Clear(sums[strip]);
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      uint32_t pairs[2 * kGemms];
      LoadPairs(x, part, pairs);
#pragma unroll
      for (int strip = 0; strip < kStrips; ++strip) {
        const uint32_t quarter = stage + strip * bytes;
        Source source;
        Operands operands;
        maker_.LoadCodes(quarter, part, source);
        maker_.Make(source, operands);
#pragma unroll
        for (int i = 0; i < kGemms; ++i) {
          MultiplyAdd<typename Shape::Factor>(operands.values[i], pairs[2 * i], pairs[2 * i + 1],
                                              sums[strip]);
        }
        if (part + 1 < kParts && !maker_.IsAtGroup(part + 1)) continue;
        typename OperandMaker<Shape>::Group group;
        maker_.LoadGroup(quarter, stage + kStrips * bytes + strip * Shape::kScaleBytes, part,
                         group);
        Add(step, part, group, sums[strip], totals_[strip]);
        Clear(sums[strip]);
      }
    }
  }
  static __device__ void Clear(Sums& sums) { sums[0] = sums[1] = sums[2] = sums[3] = 0; }

  // x's second operands of a part's gemms.
  __device__ void LoadPairs(uint32_t x, int part, uint32_t (&pairs)[2 * kGemms]) const {
    if constexpr (Shape::kFloat8Tiles) {
#pragma unroll
      for (int i = 0; i < kGemms; i += 2) {
        const uint4 piece = LoadShared16(x + part * 128 + i * 8);
        pairs[2 * i] = piece.x, pairs[2 * i + 1] = piece.y;
        pairs[2 * i + 2] = piece.z, pairs[2 * i + 3] = piece.w;
      }
    } else {
      LoadXPairs<kGemms>(
          part, [x](int two_slices) { return x + two_slices * 64; }, pairs);
    }
  }

  // The sums of a group or, where scales are of rows, of a step: with the scales of x, less what
  // zero points take off.
  __device__ void Add(int step, int part, const typename OperandMaker<Shape>::Group& group,
                      const Sums& sums, Sums& totals) const {
    if constexpr (!Shape::kScalesX) {
      AddScaledSums(sums, group.upper, group.lower, totals);
    } else {
      const uint32_t columns = lane_ % 4 * 8;  // the pair of x's rows
      const float2 x_scales = LoadSharedPair(shared_.x_scales(step) + columns);
      Sums left = {sums[0], sums[1], sums[2], sums[3]};
      if constexpr (Shape::kRawInts) {
        const int number = part * kGemms * Shape::kXSums / kStepSlices;
        const float2 x_sums = LoadSharedPair(shared_.x_sums(step, number) + columns);
        left[0] -= group.upper_zero * x_sums.x, left[1] -= group.upper_zero * x_sums.y;
        left[2] -= group.lower_zero * x_sums.x, left[3] -= group.lower_zero * x_sums.y;
      }
      totals[0] += left[0] * (x_scales.x * group.upper);
      totals[1] += left[1] * (x_scales.y * group.upper);
      totals[2] += left[2] * (x_scales.x * group.lower);
      totals[3] += left[3] * (x_scales.y * group.lower);
    }
  }

  const QuantizedGemmParams& p_;
  const QuantizedGemvShared<Shape>& shared_;
  const QuantizedGemvWork& work_;
  const OperandMaker<Shape> maker_;
  const int lane_, warp_;
  const int unit_shift_, unit_, share_;  // of a tile's strips, and of the CTA's steps
  int first_step_, num_steps_;
  RingPlace place_;
  int load_tile_, load_left_;  // what is loaded next, and how many of its steps are left
  const uint8_t* codes_;
  const float* scales_;  // of tiles
  Sums totals_[kStrips];
};

// Grid: (splits of a cluster, CTAs that take the tiles in turn, and of experts as many tiles of 8
// rows of x as there may be). Bytes: the weight once from
// memory; x once a CTA, from L2. Accumulation: a group's columns in order in float32 on tensor
// cores, a warp's groups in order, then shares of the steps, then splits. Limit: memory bandwidth,
// or latency where the weight is small.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kCtasPerSm)
    QuantizedGemv(const __grid_constant__ QuantizedGemmParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(128) uint8_t raw_gemv[];
  __shared__ ExpertTile rows;
  if (p.offsets == nullptr) {
    ReleaseSuccessor();
  } else {
    // Route is the predecessor, or else it is complete already (kernels/cuda/README.md).
    if (p.gathers_x) WaitForPredecessor();
    ShowExpertTile(p.offsets, p.num_experts, kMaxQuantizedGemvRows, static_cast<int>(blockIdx.z),
                   &rows);
    __syncthreads();
  }
  const QuantizedGemvWork work(p, rows);
  // Of experts: there are more CTAs than tiles of rows.
  if (work.num_rows == 0) return WaitForPredecessor();
  const QuantizedGemvShared<Shape> shared(raw_gemv, p, work.num_steps);
  QuantizedGemvWarp<Shape> warp(p, shared, work);
  XBringer<Shape> x(p, shared, work);
  // If x is there already, it is asked for before the weight: after the weight's loads it would be
  // long in coming.
  if (p.gathers_x) x.Begin();
  warp.Begin(work);
  if (!p.gathers_x) {
    WaitForPredecessor();
    x.Begin();
  }
  if (p.offsets != nullptr) ReleaseSuccessor();
  x.Run();
  __syncthreads();
  const QuantizedGemvOutput<Shape> output(p, shared, work);
  int buffer = 0;
  for (int tile = static_cast<int>(blockIdx.y); tile < p.num_tiles;
       tile += static_cast<int>(gridDim.y)) {
    warp.Run(work);
    warp.StoreSums(tile, buffer);
    __syncthreads();
    output.Run(tile, buffer);
    buffer ^= 1;  // the other one was read before the barrier above
  }
  if (p.num_splits > 1) SyncCluster();  // no CTA ends while others may still read its sums
#endif
}

}  // namespace quire::cuda
