// Gemms with quantized weights on sm_90a, the kernel template: out^T = weight * x^T. A CTA takes
// 128 rows of the weight (out_features) and up to 128 rows of x. One warp loads: steps of the
// weight as they lie in memory, x by TMA. Two warpgroups have 64 rows of the weight each: a lane
// reads the codes of its part of wgmma's first operand, makes values of them in registers, and
// multiplies them with x in shared memory. Codes are multiplied exactly; the sums of a group are
// then multiplied by its scale in float32. The CTAs of a cluster share out in_features and add up
// their sums. Device code only.
#pragma once

#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/gemm/quantized/dequantize.cuh"
#include "kernels/cuda/gemm/quantized/quantized_gemm_shape.cuh"
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
      : p_(p), shared_(shared), work_(work) {}

  // The first stages' weights are on their way before the predecessor, which makes x, is done.
  __device__ void Run() const {
    const int num_early = min(p_.num_stages, work_.end_step - work_.first_step);
    for (int i = 0; i < num_early; ++i) LoadWeight(work_.first_step + i, i);
    PrefetchMap(p_.x_map);
    WaitForPredecessor();
    for (int i = 0; i < num_early; ++i) LoadX(work_.first_step + i, i);
    RingPlace place;
    for (int step = work_.first_step + num_early; step < work_.end_step; ++step) {
      Wait(shared_.free(place.index), place.parity);
      LoadWeight(step, place.index);
      LoadX(step, place.index);
      place.Next(p_.num_stages);
    }
  }

 private:
  __device__ void LoadWeight(int step, int stage) const {
    const uint32_t full = shared_.full(stage);
    ArriveExpectingBytes(full,
                         Shape::kBoxes * Shape::kBoxBytes + Shape::kWarpgroups * p_.step_bytes);
#pragma unroll
    for (int i = 0; i < Shape::kWarpgroups; ++i) {
      const int64_t at = static_cast<int64_t>(work_.Block(p_, i)) * p_.num_steps + step;
      CopyBytes(shared_.weight(stage) + i * p_.step_bytes, p_.weight + at * p_.step_bytes,
                p_.step_bytes, full);
    }
  }
  __device__ void LoadX(int step, int stage) const {
#pragma unroll
    for (int box = 0; box < Shape::kBoxes; ++box) {
      CopyBox(shared_.x(stage, box), p_.x_map, step * kStepColumns + box * Shape::kBoxColumns,
              work_.first_row, shared_.full(stage));
    }
  }

  const QuantizedGemmParams& p_;
  const QuantizedGemmShared<Shape>& shared_;
  const QuantizedGemmWork& work_;
};

// A computing warpgroup.
template <typename Shape>
class QuantizedGemmComputation {
 public:
  __device__ QuantizedGemmComputation(const QuantizedGemmParams& p,
                                      const QuantizedGemmShared<Shape>& shared,
                                      const QuantizedGemmWork& work)
      : p_(p),
        shared_(shared),
        work_(work),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        row_(warp_ % 4 * 16 + lane_ / 4) {}

  // Leaves the sums in shared memory, of this CTA's share of in_features. While the gemms of one
  // part run, the operands of the next one are made.
  __device__ void Run() {
    const int num_parts = (work_.end_step - work_.first_step) * kParts;
    Operands operands[2];
    Make(0, operands[0]);
    for (int first = 0; first < num_parts; first += kUnrolled) {
#pragma unroll
      for (int i = 0; i < kUnrolled; ++i) {
        if (kParts < kUnrolled && first + i >= num_parts) break;
        const int part = i % kParts;
        Start(operands[i % 2], part, first + i == 0);
        const bool has_next = first + i + 1 < num_parts;
        // Behind the last part it again: as good as any.
        if (part + 1 == kParts && has_next) next_.Next(p_.num_stages);
        Make((part + 1) % kParts, operands[(i + 1) % 2]);
        Finish(operands[i % 2], part);
      }
    }
    if (p_.row_scales != nullptr) ScaleRows();
    SyncSome(1, Shape::kComputeThreads);  // nobody reads the ring any more
    StoreSums();
  }

 private:
  using Element = typename Shape::Element;
  using Sums = float[1][Shape::kFragments][4];
  static constexpr int kGemms = Shape::kGemms;
  static constexpr int kParts = kStepSlices / kGemms;  // of a step
  static constexpr int kUnrolled = kParts > 1 ? kParts : 2;
  static constexpr bool kInts =
      Shape::kValue == WeightValue::kInt4 || Shape::kValue == WeightValue::kInt8;

  // Of a part: the first operands of its gemms, and the scales of its group in the two rows.
  struct Operands {
    uint32_t values[kGemms][4];
    float upper, lower;
  };

  __device__ bool in_groups() const { return p_.groups_per_step > 0 && !Shape::kScaledValues; }
  __device__ bool IsAtGroup(int part) const {
    return part * kGemms * p_.groups_per_step % kStepSlices == 0;
  }

  // From the stage at next_.
  __device__ void Make(int part, Operands& operands) const {
    if (part == 0) Wait(shared_.full(next_.index), next_.parity);
    const uint32_t from = shared_.weight(next_.index) + warp_ / 4 * p_.step_bytes;
    MakeValues(from, part * kGemms, operands.values);
    const int group = part * kGemms * p_.groups_per_step / kStepSlices;
    operands.upper = in_groups() ? GroupScale(from, group, 0) : 0;
    operands.lower = in_groups() ? GroupScale(from, group, 8) : 0;
  }

  __device__ void Start(const Operands& operands, int part, bool is_first) {
    const bool accumulates = in_groups() ? !IsAtGroup(part) : !is_first;
    FenceGemms();
#pragma unroll
    for (int i = 0; i < kGemms; ++i) {
      const int slice = part * kGemms + i;
      const uint64_t x =
          DescribeMatrix(shared_.x(place_.index, slice / 4), 8 * Shape::kLineBytes, 0);
      StartRowsDot<Element>(operands.values[i], Advance(x, slice % 4 * 32), i > 0 || accumulates,
                            sums_);
    }
    CommitGemms();
  }

  __device__ void Finish(const Operands& operands, int part) {
    WaitForGemms<0>(sums_);
    if (part + 1 == kParts) {
      if (lane_ == 0) Arrive(shared_.free(place_.index));
      place_.Next(p_.num_stages);
    }
    if (in_groups() && IsAtGroup(part + 1)) AddScaled(operands.upper, operands.lower);
  }

  __device__ float GroupScale(uint32_t from, int group, int row) const {
    return __uint_as_float(
        LoadShared4(from + p_.scales_at + ((row_ + row) * p_.groups_per_step + group) * 4));
  }
  __device__ void AddScaled(float upper, float lower) {
#pragma unroll
    for (int i = 0; i < Shape::kFragments; ++i) {
      total_[0][i][0] += sums_[0][i][0] * upper;
      total_[0][i][1] += sums_[0][i][1] * upper;
      total_[0][i][2] += sums_[0][i][2] * lower;
      total_[0][i][3] += sums_[0][i][3] * lower;
    }
  }
  __device__ void ScaleRows() {
    const int block = work_.Block(p_, warp_ / 4);
    const float* const scales = p_.row_scales + block * kBlockRows + row_;
    AddScaled(scales[0], scales[8]);
  }

  // What the values of a slice are changed by.
  __device__ RowPairs PairsOf(uint32_t from, int slice) const {
    const int group = slice * p_.groups_per_step / kStepSlices;
    const int upper = row_ * p_.groups_per_step + group, lower = upper + 8 * p_.groups_per_step;
    if constexpr (Shape::kScaledValues) {
      const uint32_t scales = from + p_.scales_at;
      return {ScalePair<Element>(LoadShared1(scales + upper), p_.scale),
              ScalePair<Element>(LoadShared1(scales + lower), p_.scale)};
    } else if constexpr (kInts) {
      constexpr uint32_t kMiddle = 1u << (Shape::kBits - 1);
      const uint32_t zeros = from + p_.zeros_at;
      const bool has = p_.has_zero_points;
      return {ZeroPair<Element, Shape::kValue>(has ? LoadShared1(zeros + upper) : kMiddle),
              ZeroPair<Element, Shape::kValue>(has ? LoadShared1(zeros + lower) : kMiddle)};
    } else {
      constexpr uint32_t kOnes = kIsHalf<Element> ? 0x3c003c00u : 0x3f803f80u;
      return {kOnes, kOnes};
    }
  }

  __device__ void MakeValues(uint32_t from, int first, uint32_t (&values)[kGemms][4]) const {
    constexpr int kWords = Shape::kBits / 4;  // of a slice
    uint32_t words[kGemms * kWords];
    const uint32_t codes = from + warp_ % 4 * Shape::kWarpBytes + lane_ * 16;
    LoadWords(codes, first * kWords, words);
    RowPairs pairs = PairsOf(from, first);
#pragma unroll
    for (int i = 0; i < kGemms; ++i) {
      if (i > 0 && (Shape::kScaledValues && i % 2 == 0)) pairs = PairsOf(from, first + i);
      if (i > 0 && (Shape::kScaledValues && i % 2 == 1)) {
        if (p_.groups_per_step == kStepSlices) pairs = PairsOf(from, first + i);
      }
      if constexpr (kWords == 1) {
        Dequantize4<Element, Shape::kValue>(words[i], pairs, values[i]);
      } else {
        Dequantize8<Element, Shape::kValue>({words[2 * i], words[2 * i + 1]}, pairs, values[i]);
      }
    }
  }

  // Consecutive words of a lane, of which four are a piece.
  template <int kCount>
  static __device__ void LoadWords(uint32_t codes, int first, uint32_t (&words)[kCount]) {
    if constexpr (kCount % 4 == 0) {
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        const uint4 piece = LoadShared16(codes + (first + i) / 4 * 512);
        words[i] = piece.x, words[i + 1] = piece.y, words[i + 2] = piece.z, words[i + 3] = piece.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        words[i] = LoadShared4(codes + (first + i) / 4 * 512 + (first + i) % 4 * 4);
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
  const int lane_, warp_, row_;
  RingPlace place_;  // of the part whose gemms run
  RingPlace next_;   // of the part whose operands are made
  Sums sums_ = {};   // of a group, or of all where scales are of rows
  Sums total_ = {};
};

// From sums to results, a pair of neighbouring features at a time; the CTAs of a cluster share
// them out.
template <typename Shape>
class QuantizedGemmOutput {
 public:
  __device__ QuantizedGemmOutput(const QuantizedGemmParams& p,
                                 const QuantizedGemmShared<Shape>& shared,
                                 const QuantizedGemmWork& work)
      : p_(p), shared_(shared), work_(work) {}

  __device__ void Run() const {
    const bool is_gated = p_.num_gates > 0;
    const int pairs = is_gated ? kBlockRows / 2 : Shape::kTileFeatures / 2;
    const int num_rows = min(p_.num_rows - work_.first_row, Shape::kRows);
    const int stride = Shape::kComputeThreads * p_.num_splits;
    for (int i = work_.split * Shape::kComputeThreads + static_cast<int>(threadIdx.x);
         i < num_rows * pairs; i += stride) {
      const int row = i / pairs, feature = i % pairs * 2;
      const int column = work_.tile * pairs * 2 + feature;
      if (column >= p_.num_features) continue;
      float2 values = Sum(row, feature, column);
      if (is_gated) {
        const float2 ups = Sum(row, feature + kBlockRows, column + p_.num_gates);
        values.x = Gated<Element>(values.x, ups.x, p_.activation);
        values.y = Gated<Element>(values.y, ups.y, p_.activation);
      }
      Store(values, (work_.first_row + row) * p_.out_stride + column, column + 1 < p_.num_features);
    }
  }

 private:
  using Element = typename Shape::Element;

  // Of all splits, in their order, and the bias of weight row `column`.
  __device__ float2 Sum(int row, int feature, int column) const {
    const uint32_t at = shared_.sums(row, feature);
    float2 sum = LoadPairInCluster(p_.num_splits == 1 ? at : AddressInCluster(at, 0));
    for (int split = 1; split < p_.num_splits; ++split) {
      const float2 part = LoadPairInCluster(AddressInCluster(at, split));
      sum.x += part.x;
      sum.y += part.y;
    }
    if (p_.bias.data != nullptr) {
      float bias[1];
      p_.bias.LoadAt(column, bias);
      sum.x += bias[0];
      if (column + 1 < (p_.num_gates > 0 ? 2 * p_.num_gates : p_.num_features)) {
        p_.bias.LoadAt(column + 1, bias);
        sum.y += bias[0];
      }
    }
    return sum;
  }
  __device__ void Store(const float2& values, int64_t at, bool both) const {
    if (p_.out_is_float) {
      float* const to = static_cast<float*>(p_.out) + at;
      to[0] = values.x;
      if (both) to[1] = values.y;
      return;
    }
    const uint32_t pair = PackPair<Element>(values.x, values.y);
    auto* const to = static_cast<uint16_t*>(p_.out) + at;
    if (both && (reinterpret_cast<uintptr_t>(to) & 3) == 0) {
      *reinterpret_cast<uint32_t*>(to) = pair;
    } else {
      to[0] = static_cast<uint16_t>(pair);
      if (both) to[1] = static_cast<uint16_t>(pair >> 16);
    }
  }

  const QuantizedGemmParams& p_;
  const QuantizedGemmShared<Shape>& shared_;
  const QuantizedGemmWork& work_;
};

// Grid: (splits of a cluster and tiles of x's rows, tiles of the weight's rows). Bytes: the weight
// once from memory, for further tiles of x's rows again from L2; x once a tile, from L2.
// Accumulation: a group's columns in order in float32 on tensor cores, groups in order, a split its
// share, then these in order. Limit: memory bandwidth for few rows, tensor cores for many.
template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kCtasPerSm)
    QuantizedGemm(const __grid_constant__ QuantizedGemmParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint8_t raw[];
  const QuantizedGemmShared<Shape> shared(raw, p);
  ReleaseSuccessor();
  if (threadIdx.x == 0) shared.InitMbarriers(p);
  __syncthreads();
  const QuantizedGemmWork work(p, Shape::kRows);
  const bool computes = threadIdx.x < Shape::kComputeThreads;
  if (computes) {
    WaitForPredecessor();
    QuantizedGemmComputation<Shape>(p, shared, work).Run();
  } else if (ElectLane()) {
    QuantizedGemmLoader<Shape>(p, shared, work).Run();
  }
  __syncwarp();
  p.num_splits > 1 ? PublishInCluster() : __syncthreads();
  if (computes) QuantizedGemmOutput<Shape>(p, shared, work).Run();
  if (p.num_splits > 1) SyncCluster();  // no CTA ends while others may still read its sums
#endif
}

}  // namespace quire::cuda
