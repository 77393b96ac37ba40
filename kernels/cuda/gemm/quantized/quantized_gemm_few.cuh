// The warps that compute a gemm with a quantized weight and few rows of x, each by itself (mma).
// Each has 16 rows of the weight of each of two blocks, so that what it loads of x serves both. The
// warps need not wait for each other as those of a warpgroup do, and the compiler may make operands
// while others are multiplied. A second fragment without rows of x is left out. Device code only.
#pragma once

#include "kernels/cuda/gemm/quantized/operands.cuh"
#include "kernels/cuda/gemm/quantized/quantized_gemm_shape.cuh"
#include "kernels/cuda/runtime/mma.cuh"

namespace quire::cuda {

template <typename Shape>
class QuantizedFewRows {
 public:
  __device__ QuantizedFewRows(const QuantizedGemmParams& p,
                              const QuantizedGemmShared<Shape>& shared,
                              const QuantizedGemmWork& work)
      : p_(p),
        shared_(shared),
        work_(work),
        maker_(p),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        // Of matrix lane_ / 8 of four, next to each other: a row's 16 bytes.
        line_(lane_ % 8 * Shape::kLineBytes + ((lane_ / 8 ^ lane_ % 8) * 16)),
        quarter_(warp_ * (p.step_bytes / 4)) {}

  // Leaves the sums in shared memory, of this CTA's share of in_features.
  __device__ void Run() {
    if (Shape::kFragments > 1 && work_.end_row - work_.first_row > kFragmentRows) {
      RunFragments<Shape::kFragments>();
    } else {
      RunFragments<1>();
    }
    SyncSome(1, Shape::kComputeThreads);  // nobody reads the ring any more
#pragma unroll
    for (int strip = 0; strip < Shape::kStrips; ++strip) StoreSums(strip);
  }

 private:
  using Element = typename Shape::Element;
  using Operands = typename OperandMaker<Shape>::Operands;
  using Sums = float[Shape::kFragments][4];
  static constexpr int kGemms = Shape::kGemms, kParts = Shape::kParts;
  static constexpr int kFragmentRows = 8;  // of x

  template <int kCount>
  __device__ void RunFragments() {
    RingPlace place;
    for (int step = work_.first_step; step < work_.end_step; ++step) {
      Wait(shared_.full(place.index), place.parity);
      const uint32_t x = shared_.x(place.index, 0);
      const uint32_t weight = shared_.weight(place.index) + quarter_;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
        uint32_t pairs[kCount][2 * kGemms];
#pragma unroll
        for (int i = 0; i < kCount; ++i) LoadX(x, i, part, pairs[i]);
#pragma unroll
        for (int strip = 0; strip < Shape::kStrips; ++strip) {
          Operands operands;
          maker_.Load(weight + strip * p_.step_bytes, part, source_[strip]);
          maker_.Make(source_[strip], operands);
          Multiply<kCount>(operands, pairs, sums_[strip]);
          if constexpr (Shape::kScalesSums) {
            if (maker_.IsAtGroup(part + 1)) AddGroup<kCount>(operands, strip);
          }
        }
      }
      __syncwarp();
      if (lane_ == 0) Arrive(shared_.free(place.index));  // so few rows of x are not shared
      place.Next(p_.num_stages);
    }
  }

  __device__ void LoadX(uint32_t x, int fragment, int part, uint32_t (&pairs)[2 * kGemms]) const {
    LoadXPairs<kGemms>(
        part,
        [&](int two_slices) {
          return x + two_slices / 2 * Shape::kBoxBytes +
                 fragment * kFragmentRows * Shape::kLineBytes + (line_ ^ two_slices % 2 * 64);
        },
        pairs);
  }
  template <int kCount>
  static __device__ void Multiply(const Operands& operands,
                                  const uint32_t (&pairs)[kCount][2 * kGemms], Sums& sums) {
#pragma unroll
    for (int i = 0; i < kGemms; ++i) {
#pragma unroll
      for (int fragment = 0; fragment < kCount; ++fragment) {
        MultiplyAdd<Element>(operands.values[i], pairs[fragment][2 * i], pairs[fragment][2 * i + 1],
                             sums[fragment]);
      }
    }
  }
  template <int kCount>
  __device__ void AddGroup(const Operands& operands, int strip) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      AddScaledSums(sums_[strip][i], operands.upper, operands.lower, total_[strip][i]);
#pragma unroll
      for (float& sum : sums_[strip][i]) sum = 0;
    }
  }

  // A lane has rows r and r + 8 of a strip, of each fragment two neighbouring rows of x; times the
  // scales of the weight's rows where it has some.
  __device__ void StoreSums(int strip) const {
    const int row = warp_ * kQuarterRows + lane_ / 4;
    float upper = 1, lower = 1;
    if constexpr (Shape::kGroups == 0) {
      const int block = work_.Block<Shape::kBlocks>(p_, strip);
      const float* const scales = work_.RowScales(p_) + block * kBlockRows + row;
      upper = scales[0], lower = scales[8];
    }
#pragma unroll
    for (int i = 0; i < Shape::kFragments; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const float sum = Shape::kScalesSums ? total_[strip][i][j] : sums_[strip][i][j];
        const uint32_t to = shared_.sums(i * kFragmentRows + lane_ % 4 * 2 + j % 2,
                                         strip * kBlockRows + row + j / 2 * 8);
        StoreShared4(to, __float_as_uint(sum * (j < 2 ? upper : lower)));
      }
    }
  }

  const QuantizedGemmParams& p_;
  const QuantizedGemmShared<Shape>& shared_;
  const QuantizedGemmWork& work_;
  const OperandMaker<Shape> maker_;
  const int lane_, warp_, line_, quarter_;
  typename OperandMaker<Shape>::Source source_[Shape::kStrips];
  // sums_ are the sums of a group, or of everything where scales belong to rows or to values.
  Sums sums_[Shape::kStrips] = {}, total_[Shape::kStrips] = {};
};

}  // namespace quire::cuda
