// Gemms of quantized weights with up to 16 rows of x, the kernel template: out^T = weight * x^T. A
// CTA takes 128 rows of the weight, a warp 16 of them and half the
// columns. Each warp has a ring of steps of its own,
// which one lane fills by bulk copies, so that no warp waits for another; x, in bytes much less, is
// in shared memory as a whole. Tensor cores multiply (mma), from codes to values as
// quantized_gemm.cuh. Device code only.
#pragma once

#include "kernels/cuda/gemm/quantized/operands.cuh"
#include "kernels/cuda/gemm/quantized/quantized_gemv_shape.cuh"
#include "kernels/cuda/gemm/quantized/quantized_output.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/mma.cuh"

namespace quire::cuda {

template <typename Shape>
class QuantizedGemvWarp {
 public:
  __device__ QuantizedGemvWarp(const QuantizedGemmParams& p,
                               const QuantizedGemvShared<Shape>& shared,
                               const QuantizedGemmWork& work)
      : p_(p),
        shared_(shared),
        work_(work),
        maker_(p),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        strip_(warp_ % Shape::kStripWarps),
        first_step_(warp_ < Shape::kStripWarps ? 0 : (work.end_step - work.first_step) / 2),
        num_steps_(warp_ < Shape::kStripWarps ? (work.end_step - work.first_step) / 2
                                              : work.end_step - work.first_step - first_step_),
        first_row_(work.Block<Shape::kBlocks>(p, strip_ / 4) * kBlockRows +
                   strip_ % 4 * kQuarterRows),
        first_quarter_(
            p.weight +
            (static_cast<int64_t>(work.Block<Shape::kBlocks>(p, strip_ / 4)) * p.num_steps +
             work.first_step + first_step_) *
                p.step_bytes +
            strip_ % 4 * shared.stage_bytes) {}

  // The first steps, which do not depend on the predecessor.
  __device__ void Begin() const {
    if (!ElectLane()) return;
    for (int i = 0; i < p_.num_stages; ++i) InitMbarrier(shared_.full(warp_, i), 1);
    PublishMbarriers();
    FenceSharedWrites();
    for (int i = 0; i < min(p_.num_stages, num_steps_); ++i) Load(i, i);
  }

  // Once x is in shared memory.
  __device__ void Run() {
    const int lane_row = Shape::kFloat8Tiles ? lane_ / 4 : lane_ % 8;
    uint32_t x[Shape::kFragments];
#pragma unroll
    for (int i = 0; i < Shape::kFragments; ++i) {
      // Of rows that do not exist the first one: what becomes of them is not read.
      const int row = lane_row + i * 8 < p_.num_rows ? lane_row + i * 8 : 0;
      x[i] = shared_.x(row) + first_step_ * kStepColumns * 2 +
             (Shape::kFloat8Tiles ? lane_ % 4 * 32 : lane_ / 8 * 16);
    }
    RingPlace place;
    for (int step = 0; step < num_steps_; ++step) {
      Wait(shared_.full(warp_, place.index), place.parity);
      Step(place.index, step, x);
      __syncwarp();
      if (step + p_.num_stages < num_steps_ && ElectLane()) {
        Load(step + p_.num_stages, place.index);
      }
      place.Next(p_.num_stages);
    }
    if constexpr (Shape::kGroups == 0) {
      const int row = first_row_ + maker_.SumsRow();
      ScaleRows(p_.row_scales[row], p_.row_scales[row + 8]);
    }
  }

  // All warps call it after Run: leaves the sums of the CTA's steps.
  __device__ void AddUp() const {
    if (warp_ >= Shape::kStripWarps) {
      ForEachSum([](uint32_t at, float sum) { StoreShared4(at, __float_as_uint(sum)); });
    }
    __syncthreads();
    if (warp_ < Shape::kStripWarps) {
      ForEachSum([](uint32_t at, float sum) {
        StoreShared4(at, __float_as_uint(sum + __uint_as_float(LoadShared4(at))));
      });
    }
  }

 private:
  using Element = typename Shape::Element;
  static constexpr int kGemms = Shape::kGemms, kParts = Shape::kParts;

  __device__ void Load(int step, int stage) const {
    const uint32_t full = shared_.full(warp_, stage);
    ArriveExpectingBytes(full, shared_.stage_bytes);
    CopyBytes(shared_.stage(warp_, stage),
              first_quarter_ + static_cast<int64_t>(step) * p_.step_bytes, shared_.stage_bytes,
              full);
  }

  __device__ void Step(int stage, int step, uint32_t (&x)[Shape::kFragments]) {
    const uint32_t scales = shared_.scales(first_step_ + step) + strip_ * kQuarterRows * 4;
    typename OperandMaker<Shape>::Source source;
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      typename OperandMaker<Shape>::Operands operands;
      maker_.Load(shared_.stage(warp_, stage), scales, part, source);
      maker_.Make(shared_.stage(warp_, stage), part, source, operands);
#pragma unroll
      for (int i = 0; i < Shape::kFragments; ++i) {
        MultiplyPart(operands, part, x[i], sums_[i]);
      }
      if constexpr (Shape::kFloat8Tiles) {
        if (part + 1 == kParts) AddStep(step, operands.upper, operands.lower);
      } else if (maker_.IsAtGroup(part + 1)) {
        AddScaled(operands.upper, operands.lower);
        ClearSums();
      }
    }
#pragma unroll
    for (uint32_t& at : x) at += kStepColumns * 2;
  }
  __device__ void ClearSums() {
#pragma unroll
    for (auto& fragment : sums_) fragment[0] = fragment[1] = fragment[2] = fragment[3] = 0;
  }
  // Of tiles, with the scales of x.
  __device__ void AddStep(int step, float upper, float lower) {
    const uint32_t x_scales = shared_.x_scales(first_step_ + step) + lane_ % 4 * 8;
#pragma unroll
    for (int i = 0; i < Shape::kFragments; ++i) {
      const float first = __uint_as_float(LoadShared4(x_scales + i * 32));
      const float second = __uint_as_float(LoadShared4(x_scales + i * 32 + 4));
      total_[i][0] += sums_[i][0] * first * upper;
      total_[i][1] += sums_[i][1] * second * upper;
      total_[i][2] += sums_[i][2] * first * lower;
      total_[i][3] += sums_[i][3] * second * lower;
    }
    ClearSums();
  }

  __device__ void MultiplyPart(const typename OperandMaker<Shape>::Operands& operands, int part,
                               uint32_t x, float (&sums)[4]) const {
    uint32_t pairs[4];  // of two slices
#pragma unroll
    for (int i = 0; i < kGemms; ++i) {
      const int slice = part * kGemms + i;
      if (i == 0 || slice % 2 == 0) {
        if constexpr (Shape::kFloat8Tiles) {
          LoadPairs(x + part * 128 + i * 8, pairs);
        } else {
          LoadMatrices(x + slice / 2 * 64, pairs);
        }
      }
      MultiplyAdd<typename Shape::Factor>(operands.values[i], pairs[slice % 2 * 2],
                                          pairs[slice % 2 * 2 + 1], sums);
    }
  }
  static __device__ void LoadPairs(uint32_t x, uint32_t (&pairs)[4]) {
    const uint4 words = LoadShared16(x);
    pairs[0] = words.x, pairs[1] = words.y, pairs[2] = words.z, pairs[3] = words.w;
  }

  // By the scales of the weight's rows; the steps of tiles have been added up.
  __device__ void ScaleRows(float upper, float lower) {
    auto& unscaled = Shape::kFloat8Tiles ? total_ : sums_;
#pragma unroll
    for (int i = 0; i < Shape::kFragments; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) total_[i][j] = unscaled[i][j] * (j < 2 ? upper : lower);
    }
  }
  __device__ void AddScaled(float upper, float lower) {
#pragma unroll
    for (int i = 0; i < Shape::kFragments; ++i) AddScaledSums(sums_[i], upper, lower, total_[i]);
  }

  // visit(where it is in shared memory, sum)
  template <typename Visit>
  __device__ void ForEachSum(const Visit& visit) const {
    const int feature = strip_ * kQuarterRows + maker_.SumsRow();
#pragma unroll
    for (int i = 0; i < Shape::kFragments; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        visit(shared_.sums(i * 8 + lane_ % 4 * 2 + j % 2, feature + j / 2 * 8), total_[i][j]);
      }
    }
  }

  const QuantizedGemmParams& p_;
  const QuantizedGemvShared<Shape>& shared_;
  const QuantizedGemmWork& work_;
  const OperandMaker<Shape> maker_;
  const int lane_, warp_;
  const int strip_;                   // of 16 rows
  const int first_step_, num_steps_;  // of the CTA's
  const int first_row_;               // of the weight
  const uint8_t* const first_quarter_;
  float sums_[Shape::kFragments][4] = {};  // of a group, or of all where scales are of rows
  float total_[Shape::kFragments][4] = {};
};

// Grid: (splits of a cluster, tiles of the weight's rows). Bytes: the weight once from memory; x
// once a tile, from L2. Accumulation: a group's columns in order in float32 on tensor cores, groups
// in order, a split its share, then these in order. Limit: memory bandwidth, or latency where the
// weight is small.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kCtasPerSm)
    QuantizedGemv(const __grid_constant__ QuantizedGemmParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(128) uint8_t raw_gemv[];
  ReleaseSuccessor();
  const QuantizedGemmWork work(p, Shape::kRows);
  const QuantizedGemvShared<Shape> shared(raw_gemv, p, work.end_step - work.first_step);
  QuantizedGemvWarp<Shape> warp(p, shared, work);
  warp.Begin();
  if constexpr (Shape::kScaleBytes > 0) BringScales<Shape>(p, shared, work);
  WaitForPredecessor();
  BringX<Shape>(p, shared, work);
  __syncthreads();
  warp.Run();
  warp.AddUp();
  p.num_splits > 1 ? PublishInCluster() : __syncthreads();
  QuantizedOutput<Shape, QuantizedGemvShared<Shape>>(p, shared, work).Run();
  if (p.num_splits > 1) SyncCluster();  // no CTA ends while others may still read its sums
#endif
}

}  // namespace quire::cuda
