#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "kernels/cuda/attention/merge_state.h"

namespace quire::cuda {

namespace {

template <typename T>
struct MergeParams {
  const T* out_a;
  const float* lse_a;
  const T* out_b;
  const float* lse_b;
  T* out;
  float* lse;
  int64_t stride_a, stride_b, stride_out;  // of a token
  int32_t head_dim;
};

// One CTA per (token, head).
template <typename T>
__global__ void MergeState(const __grid_constant__ MergeParams<T> p) {
  const int64_t token = blockIdx.x;
  const int64_t row = token * gridDim.y + blockIdx.y;
  const float lse_a = p.lse_a[row];
  const float lse_b = p.lse_b[row];
  const float max = fmaxf(lse_a, lse_b);
  const bool empty = max == -INFINITY;
  const float weight_a = empty ? 0.0f : exp2f(lse_a - max);
  const float weight_b = empty ? 0.0f : exp2f(lse_b - max);
  const float sum = weight_a + weight_b;
  const float scale_a = empty ? 0.0f : weight_a / sum;
  const float scale_b = empty ? 0.0f : weight_b / sum;
  __syncthreads();  // the sums may be written over
  if (threadIdx.x == 0) p.lse[row] = empty ? -INFINITY : max + log2f(sum);
  for (int32_t i = threadIdx.x; i < p.head_dim; i += blockDim.x) {
    const int64_t at = static_cast<int64_t>(blockIdx.y) * p.head_dim + i;
    const auto a = static_cast<float>(p.out_a[token * p.stride_a + at]);
    const auto b = static_cast<float>(p.out_b[token * p.stride_b + at]);
    p.out[token * p.stride_out + at] = static_cast<T>(scale_a * a + scale_b * b);
  }
}

template <typename T>
void Launch(const MergeStateArgs& args, cudaStream_t stream) {
  constexpr int kThreads = 128;
  const dim3 grid(static_cast<unsigned>(args.out.dim(0)), static_cast<unsigned>(args.out.dim(1)));
  const MergeParams<T> params = {.out_a = static_cast<const T*>(args.out_a.data()),
                                 .lse_a = args.lse_a,
                                 .out_b = static_cast<const T*>(args.out_b.data()),
                                 .lse_b = args.lse_b,
                                 .out = static_cast<T*>(args.out.data()),
                                 .lse = args.lse,
                                 .stride_a = args.out_a.row_stride(),
                                 .stride_b = args.out_b.row_stride(),
                                 .stride_out = args.out.row_stride(),
                                 .head_dim = static_cast<int32_t>(args.out.dim(2))};
  MergeState<<<grid, kThreads, 0, stream>>>(params);
}

}  // namespace

void LaunchMergeState(const MergeStateArgs& args, cudaStream_t stream) {
  CHECK(args.out.dtype() == args.out_a.dtype() && args.out.dtype() == args.out_b.dtype());
  if (args.out.dim(0) == 0) return;
  switch (args.out.dtype()) {
    case DType::kF32:
      return Launch<float>(args, stream);
    case DType::kF16:
      return Launch<__half>(args, stream);
    default:
      return Launch<__nv_bfloat16>(args, stream);
  }
}

}  // namespace quire::cuda
