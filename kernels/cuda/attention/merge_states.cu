#include <cmath>

#include "kernels/base/types.h"
#include "kernels/cuda/runtime/float_dispatch.cuh"
#include "kernels/cuda/runtime/free_ops.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

namespace {

constexpr int kThreads = 128;

// Where state `i` of a token's head lies: two tensors, or one that holds them state by state.
template <typename T>
struct PairOfStates {
  static constexpr int32_t num_states = 2;
  const T* out[2];
  const float* lse[2];
  int64_t stride[2];  // of a token
  int32_t num_heads, head_dim;

  __device__ float Lse(int64_t token, int32_t head, int32_t i) const {
    return lse[i][token * num_heads + head];
  }
  __device__ const T* Out(int64_t token, int32_t head, int32_t i) const {
    return out[i] + token * stride[i] + static_cast<int64_t>(head) * head_dim;
  }
};

template <typename T>
struct StackedStates {
  int32_t num_states;
  const T* out;
  const float* lse;
  int64_t stride;  // of a token
  int32_t num_heads, head_dim;

  __device__ float Lse(int64_t token, int32_t head, int32_t i) const {
    return lse[(token * num_states + i) * num_heads + head];
  }
  __device__ const T* Out(int64_t token, int32_t head, int32_t i) const {
    return out + token * stride + (static_cast<int64_t>(i) * num_heads + head) * head_dim;
  }
};

// Grid: (groups of heads that a CTA merges side by side, tokens). Some lanes of a warp have a head.
// Bytes: every state read once, out written once.
// Accumulation: float32, in the order of the states.
// Limit: memory bandwidth.
template <typename T, int kWidth, typename States>
__global__ void __launch_bounds__(kThreads)
    MergeKernel(const __grid_constant__ States states, int lanes, T* out, int64_t out_stride,
                float* lse) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int64_t token = blockIdx.y;
  const auto head = static_cast<int32_t>(blockIdx.x * kThreads + threadIdx.x) / lanes;
  const bool is_head = head < states.num_heads;
  float max = -INFINITY, sum = 0.0f;
  if (is_head) {
    for (int32_t i = 0; i < states.num_states; ++i) max = fmaxf(max, states.Lse(token, head, i));
    for (int32_t i = 0; i < states.num_states; ++i) {
      sum += max == -INFINITY ? 0.0f : exp2f(states.Lse(token, head, i) - max);
    }
    T* const row = out + token * out_stride + static_cast<int64_t>(head) * states.head_dim;
    for (int32_t d = threadIdx.x % lanes * kWidth; d < states.head_dim; d += lanes * kWidth) {
      float merged[kWidth] = {};
      for (int32_t i = 0; i < states.num_states; ++i) {
        const float share = sum == 0.0f ? 0.0f : exp2f(states.Lse(token, head, i) - max) / sum;
        // A state without keys has written nothing that counts.
        if (share == 0.0f) continue;
        float values[kWidth];
        Load(states.Out(token, head, i) + d, values);
#pragma unroll
        for (int j = 0; j < kWidth; ++j) merged[j] += share * values[j];
      }
      Store(merged, row + d);
    }
  }
  __syncwarp();  // the sums may be written over
  if (is_head && threadIdx.x % lanes == 0) {
    lse[token * states.num_heads + head] = sum == 0.0f ? -INFINITY : max + log2f(sum);
  }
}

template <typename T, int kWidth, typename States>
void Launch(const States& states, const Tensor& out, float* lse, cudaStream_t stream) {
  int lanes = 1;
  while (lanes < 32 && lanes * kWidth < states.head_dim) lanes *= 2;
  const int32_t heads_per_cta = kThreads / lanes;
  const dim3 grid(CeilDiv(states.num_heads, heads_per_cta), static_cast<unsigned>(out.dim(0)));
  LaunchKernel(MergeKernel<T, kWidth, States>, grid, dim3(kThreads), 0, stream, states, lanes,
               static_cast<T*>(out.data()), out.row_stride(), lse);
}

template <typename T, int kWidth>
void LaunchPair(const MergeStateArgs& args, cudaStream_t stream) {
  const PairOfStates<T> states = {
      .out = {static_cast<const T*>(args.out_a.data()), static_cast<const T*>(args.out_b.data())},
      .lse = {args.lse_a, args.lse_b},
      .stride = {args.out_a.row_stride(), args.out_b.row_stride()},
      .num_heads = static_cast<int32_t>(args.out.dim(1)),
      .head_dim = static_cast<int32_t>(args.out.dim(2))};
  Launch<T, kWidth>(states, args.out, args.lse, stream);
}

template <typename T, int kWidth>
void LaunchStacked(const MergeStatesArgs& args, cudaStream_t stream) {
  const StackedStates<T> states = {.num_states = args.num_states,
                                   .out = static_cast<const T*>(args.states.data()),
                                   .lse = args.states_lse,
                                   .stride = args.states.row_stride(),
                                   .num_heads = static_cast<int32_t>(args.out.dim(1)),
                                   .head_dim = static_cast<int32_t>(args.out.dim(2))};
  Launch<T, kWidth>(states, args.out, args.lse, stream);
}

}  // namespace

void LaunchMergeState(const MergeStateArgs& args, cudaStream_t stream) {
  if (args.out.dim(0) == 0) return;
  const bool vectors = FitsVectors(args.out.dim(2), {&args.out_a, &args.out_b, &args.out});
  DispatchFloat(args.out.dtype(), vectors,
                [&]<typename T, int kWidth>() { LaunchPair<T, kWidth>(args, stream); });
}

void LaunchMergeStates(const MergeStatesArgs& args, cudaStream_t stream) {
  if (args.out.dim(0) == 0) return;
  const bool vectors = FitsVectors(args.out.dim(2), {&args.states, &args.out});
  DispatchFloat(args.out.dtype(), vectors,
                [&]<typename T, int kWidth>() { LaunchStacked<T, kWidth>(args, stream); });
}

}  // namespace quire::cuda
