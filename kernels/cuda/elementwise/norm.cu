#include <algorithm>

#include "kernels/base/types.h"
#include "kernels/cuda/runtime/float8.cuh"
#include "kernels/cuda/runtime/float8_rows.cuh"
#include "kernels/cuda/runtime/float_dispatch.cuh"
#include "kernels/cuda/runtime/free_ops.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

namespace {

constexpr int kMaxThreads = 1024;
constexpr int kFewThreads = 512;
constexpr int kFewRows = 128;  // that have a multiprocessor each
constexpr int kMaxPacks = 4;   // per thread, kept in registers between the two passes

// The sum over the CTA, the same in every thread and for every number of rows.
__device__ float BlockSum(float value) {
  __shared__ float warp_sums[32];
  const int warp = threadIdx.x / 32, num_warps = blockDim.x / 32;
  value = WarpSum(value);
  if (threadIdx.x % 32 == 0) warp_sums[warp] = value;
  __syncthreads();
  return WarpSum(threadIdx.x % 32 < num_warps ? warp_sums[threadIdx.x % 32] : 0.0f);
}

struct NormParams {
  const void* x;
  void* residual;  // or null
  void* out;
  Float8Bits* float8_out;
  float* scales;  // of float8_out
  int64_t scale_stride;
  int64_t x_stride, residual_stride, out_stride, float8_stride;
  FloatVector weight;
  int size;
  float eps;
};

// The 16 lanes that have a line of Float8Rows leave it, rounded to T first. All lanes call it,
// those beyond the row with zeros.
template <typename T>
__device__ __forceinline__ void StoreAsFloat8(const NormParams& params, int64_t row, int column,
                                              float (&values)[kVector], bool stores) {
  float most = 0;
#pragma unroll
  for (float& value : values) {
    value = Rounded<T>(value);
    most = fmaxf(most, fabsf(value));
  }
  most = MaxOfLineLanes(most);
  const XScale scale(most);
  if (column >= params.size) return;
#pragma unroll
  for (float& value : values) value = scale(value);
  if (!stores) return;
  StoreFloat8(values, DType::kF8E4M3, params.float8_out + row * params.float8_stride + column);
  if (column % Float8Rows::kLineColumns == 0) {
    params.scales[column / Float8Rows::kLineColumns * params.scale_stride + row] = scale.scale;
  }
}

// Where a norm is written to.
enum class NormOutputs { kOut, kFloat8, kBoth };
constexpr bool HasFloat8(NormOutputs outputs) { return outputs != NormOutputs::kOut; }
constexpr bool HasOut(NormOutputs outputs) { return outputs != NormOutputs::kFloat8; }

// A row of a CTA.
template <typename T, int kWidth, int kPacks, NormOutputs kOutputs, bool kCentred>
class RmsNormRow {
 public:
  __device__ explicit RmsNormRow(const NormParams& params) : params_(params), row_(blockIdx.x) {
    // All of it up to some 8000 elements, before x is there.
    if (At(0) < params.size) params.weight.LoadAt(At(0), weight_);
  }

  // Computes the norm of this x and residual, which may be null. Without `stores` it runs only so
  // that its code is there already when it runs again.
  __device__ void Run(const T* x, T* residual, bool stores) {
    float values[kPacks][kWidth] = {};
    float sum = SumOfSquares(x, residual, stores, values);
    if constexpr (kCentred) sum = SubtractMean(values);
    const float mean = BlockSum(sum) / static_cast<float>(params_.size);
    const float scale = 1.0f / sqrtf(mean + params_.eps);
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      const int i = At(pack);
      if (!HasFloat8(kOutputs) && i >= params_.size) break;
      if (pack > 0 && i < params_.size) params_.weight.LoadAt(i, weight_);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) values[pack][j] *= scale * weight_[j];
      if (HasOut(kOutputs) && stores && i < params_.size) {
        Store(values[pack], static_cast<T*>(params_.out) + row_ * params_.out_stride + i);
      }
      if constexpr (HasFloat8(kOutputs)) {
        StoreAsFloat8<T>(params_, row_, i, values[pack], stores);
      }
    }
  }

 private:
  static __device__ int At(int pack) {
    return static_cast<int>(pack * blockDim.x + threadIdx.x) * kWidth;
  }

  // Adds the residual and stores the sums there.
  __device__ float SumOfSquares(const T* x, T* residual, bool stores,
                                float (&values)[kPacks][kWidth]) const {
    float before[kPacks][kWidth], sum = 0.0f;
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {  // all under way at once
      const int i = At(pack);
      if (i >= params_.size) break;
      Load(x + i, values[pack]);
      if (residual != nullptr) Load(residual + i, before[pack]);
    }
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      const int i = At(pack);
      if (i >= params_.size) break;
      if (residual != nullptr) {
#pragma unroll
        for (int j = 0; j < kWidth; ++j) {
          values[pack][j] = Rounded<T>(values[pack][j] + before[pack][j]);
        }
        if (stores) Store(values[pack], residual + i);
      }
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum = fmaf(values[pack][j], values[pack][j], sum);
    }
    return sum;
  }

  // Leaves values less the row's mean; the sum of their squares.
  __device__ float SubtractMean(float (&values)[kPacks][kWidth]) const {
    float sum = 0.0f, squares = 0.0f;
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sum += values[pack][j];  // zeros beyond the row
    }
    const float mean = BlockSum(sum) / static_cast<float>(params_.size);
    __syncthreads();  // all have read it before the next sum
#pragma unroll
    for (int pack = 0; pack < kPacks; ++pack) {
      if (At(pack) >= params_.size) break;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) {
        values[pack][j] -= mean;
        squares = fmaf(values[pack][j], values[pack][j], squares);
      }
    }
    return squares;
  }

  const NormParams& params_;
  const int64_t row_;
  float weight_[kWidth] = {};
};

// Grid: one CTA of up to kThreads per row, a thread per kWidth elements (up to kPacks of them).
// Bytes: x and weight read once, each output written once; residual read and written once.
// Accumulation: squares in a thread in order, then shuffles, then warps: float32; before them the
// sum for a mean in the same way.
// Limit: memory bandwidth from some 500 rows; below, one row's latency (two dependent passes).
template <typename T, int kWidth, int kThreads, int kPacks, NormOutputs kOutputs, bool kCentred>
__global__ void __launch_bounds__(kThreads) RmsNormKernel(const NormParams params) {
  ReleaseSuccessor();
  RmsNormRow<T, kWidth, kPacks, kOutputs, kCentred> row(params);
  const T* x = static_cast<const T*>(params.x) + blockIdx.x * params.x_stride;
  T* residual = static_cast<T*>(params.residual);
  if (residual != nullptr) residual += blockIdx.x * params.residual_stride;
  if constexpr (HasFloat8(kOutputs) && kPacks == 1) {
    // The code of one row takes longer to come than to run: so of few rows it runs once before x is
    // there, on numbers that are there, and stores nothing. Never unrolled: it must be the same
    // code. (8B in FP8, one stream: a norm adds 2.06 us to a step instead of 3.37.)
    T* const there = const_cast<T*>(static_cast<const T*>(params.weight.data));
#pragma unroll 1
    for (int pass = gridDim.x <= kFewRows ? 0 : 1; pass < 2; ++pass) {
      const bool stores = pass == 1;
      if (stores) WaitForPredecessor();
      row.Run(stores ? x : there, stores || residual == nullptr ? residual : there, stores);
      __syncthreads();
    }
  } else {
    WaitForPredecessor();
    row.Run(x, residual, /*stores=*/true);
  }
}

// Threads and packs that are not there cost registers, and so CTAs an SM: kernels for what they
// hold.
template <typename T, int kWidth, NormOutputs kOutputs, bool kCentred>
void Launch(const NormParams& params, int64_t num_rows, cudaStream_t stream) {
  const int64_t num_packs = CeilDiv<int64_t>(params.size, kWidth);
  CHECK_LE(num_packs, kMaxPacks * kMaxThreads) << "hidden size " << params.size;
  const auto num_threads =
      static_cast<unsigned>(std::min<int64_t>(kMaxThreads, RoundUp<int64_t>(num_packs, 32)));
  const auto kernel = num_packs <= kFewThreads
                          ? RmsNormKernel<T, kWidth, kFewThreads, 1, kOutputs, kCentred>
                      : num_packs <= kMaxThreads
                          ? RmsNormKernel<T, kWidth, kMaxThreads, 1, kOutputs, kCentred>
                          : RmsNormKernel<T, kWidth, kMaxThreads, kMaxPacks, kOutputs, kCentred>;
  LaunchKernel(kernel, static_cast<unsigned>(num_rows), num_threads, 0, stream, params);
}

template <typename T, bool kCentred>
void LaunchToFloat8(const NormParams& params, int64_t num_rows, cudaStream_t stream) {
  params.out == nullptr
      ? Launch<T, kVector, NormOutputs::kFloat8, kCentred>(params, num_rows, stream)
      : Launch<T, kVector, NormOutputs::kBoth, kCentred>(params, num_rows, stream);
}

template <bool kCentred>
void LaunchNorm(const RmsNormArgs& args, cudaStream_t stream) {
  const int64_t num_rows = args.x.dim(0);
  NormParams params = {.x = args.x.data(),
                       .residual = args.residual.data(),
                       .out = args.out.data(),
                       .float8_out = static_cast<Float8Bits*>(args.float8_out.data()),
                       .scales = nullptr,
                       .scale_stride = 0,
                       .x_stride = args.x.row_stride(),
                       .residual_stride = args.residual.row_stride(),
                       .out_stride = args.out.row_stride(),
                       .float8_stride = args.float8_out.row_stride(),
                       .weight = FloatVector(args.weight),
                       .size = static_cast<int>(args.x.dim(1)),
                       .eps = args.eps};
  const bool vectors =
      FitsVectors(args.x.dim(1), {&args.x, &args.residual, &args.out, &args.weight});
  if (!args.float8_out.empty()) {
    const Float8Rows rows(args.float8_out);
    params.scales = rows.scales();
    params.scale_stride = rows.scale_stride();
    CHECK(vectors);
    return args.x.dtype() == DType::kF16
               ? LaunchToFloat8<__half, kCentred>(params, num_rows, stream)
               : LaunchToFloat8<__nv_bfloat16, kCentred>(params, num_rows, stream);
  }
  DispatchFloat(args.x.dtype(), vectors, [&]<typename T, int kWidth>() {
    Launch<T, kWidth, NormOutputs::kOut, kCentred>(params, num_rows, stream);
  });
}

}  // namespace

// Kernels of their own: registers for a mean would cost the others a CTA an SM.
void LaunchRmsNorm(const RmsNormArgs& args, cudaStream_t stream) {
  if (args.x.dim(0) == 0) return;
  args.centred ? LaunchNorm<true>(args, stream) : LaunchNorm<false>(args, stream);
}

}  // namespace quire::cuda
