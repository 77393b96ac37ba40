#include <cuda_bf16.h>

#include <cmath>
#include <type_traits>

#include "kernels/base/check.h"
#include "kernels/cuda/attention/generic_attention.h"
#include "kernels/cuda/attention/tiles/softmax_state.cuh"
#include "kernels/cuda/runtime/float8.cuh"
#include "kernels/cuda/runtime/float_dispatch.cuh"

namespace quire::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kMaxHeadDim = 512;
constexpr int kPerLane = kMaxHeadDim / 32;

// Device pointers and scalars only: what a kernel may take by value.
template <typename Query, typename Kv>
struct KernelParams {
  const Query* q;
  Query* out;
  int64_t q_row_stride;
  int64_t out_row_stride;
  float* lse;
  const Kv* k;
  const Kv* v;
  int64_t block_stride, token_stride, head_stride;
  int32_t block_size, num_q_heads, num_kv_heads, head_dim;
  AttentionVariant variant;
  const float* sinks;
  DType kv_dtype;         // where Kv is Float8Bits
  const float* k_scales;  // likewise, or null
  const float* v_scales;
  bool merges;
  int32_t num_seqs;
  const int32_t* cu_seqlens_q;
  const int32_t* seq_lens;
  PageTable pages;

  __device__ float Element(const Kv* from, int64_t at) const {
    if constexpr (std::is_same_v<Kv, Float8Bits>) {
      return FloatOf(from[at], kv_dtype);
    } else {
      return static_cast<float>(from[at]);
    }
  }
};

// The last sequence that begins at or before the token.
__device__ int32_t SeqOf(const int32_t* cu_seqlens_q, int32_t num_seqs, int32_t token) {
  int32_t low = 0;
  int32_t high = num_seqs;
  while (high - low > 1) {
    const int32_t middle = (low + high) / 2;
    (cu_seqlens_q[middle] <= token ? low : high) = middle;
  }
  return low;
}

__device__ float SumOverWarp(float value) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffff, value, step);
  return value;
}

// A warp's softmax state; each lane holds every 32nd element of the head.
struct LaneState {
  float max = -INFINITY;
  float sum = 0;
  float out[kPerLane] = {};
};

// Folds in the keys of one warp: every kWarps-th, by absolute position.
template <typename Query, typename Kv>
__device__ void AttendKeys(const KernelParams<Query, Kv>& p, const float (&q)[kPerLane],
                           int32_t kv_head, const int32_t* blocks, int32_t begin, int32_t end,
                           LaneState& state) {
  AttentionVariant variant = p.variant;
  if (p.k_scales != nullptr) variant.scale *= p.k_scales[kv_head];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  for (int32_t key = begin + (warp - begin % kWarps + kWarps) % kWarps; key < end; key += kWarps) {
    const int32_t block = blocks[key / p.block_size];
    if (block < 0) continue;
    const int64_t at =
        block * p.block_stride + key % p.block_size * p.token_stride + kv_head * p.head_stride;
    float logit = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int element = lane + 32 * i;
      if (element < p.head_dim) logit += q[i] * p.Element(p.k, at + element);
    }
    logit = variant.Logit(SumOverWarp(logit)) * kLog2E;
    const float max = fmaxf(state.max, logit);
    const float rescale = exp2f(state.max - max);
    const float prob = exp2f(logit - max);
    state.max = max;
    state.sum = state.sum * rescale + prob;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
      const int element = lane + 32 * i;
      if (element >= p.head_dim) continue;
      state.out[i] = state.out[i] * rescale + prob * p.Element(p.v, at + element);
    }
  }
}

template <typename Query, typename Kv>
__global__ void __launch_bounds__(32 * kWarps)
    GenericAttention(const __grid_constant__ KernelParams<Query, Kv> p) {
  __shared__ float shared_out[kWarps][kMaxHeadDim];
  __shared__ float2 shared_state[kWarps];
  const auto token = static_cast<int32_t>(blockIdx.x);
  const auto head = static_cast<int32_t>(blockIdx.y);
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  if (token < p.cu_seqlens_q[0] || token >= p.cu_seqlens_q[p.num_seqs]) return;
  const int32_t seq = SeqOf(p.cu_seqlens_q, p.num_seqs, token);
  const int32_t first_token = p.cu_seqlens_q[seq];
  const int32_t end =
      p.variant.KeyEnd(p.seq_lens[seq], p.cu_seqlens_q[seq + 1] - first_token, token - first_token);
  const int32_t begin = p.variant.KeyBegin(end);

  float q[kPerLane] = {};
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) {
    const int element = lane + 32 * i;
    if (element >= p.head_dim) continue;
    q[i] = static_cast<float>(p.q[token * p.q_row_stride + head * p.head_dim + element]);
  }
  LaneState state;
  const int32_t kv_head = head / (p.num_q_heads / p.num_kv_heads);
  AttendKeys(p, q, kv_head, p.pages.kv_indices + p.pages.kv_indptr[seq], begin, end, state);
#pragma unroll
  for (int i = 0; i < kPerLane; ++i) shared_out[warp][lane + 32 * i] = state.out[i];
  if (lane == 0) shared_state[warp] = {state.max, state.sum};
  __syncthreads();

  float max = -INFINITY;
  for (const float2& part : shared_state) max = fmaxf(max, part.x);
  float scales[kWarps];
  float sum = 0;
  for (int w = 0; w < kWarps; ++w) {
    scales[w] = shared_state[w].x == -INFINITY ? 0.0f : exp2f(shared_state[w].x - max);
    sum += shared_state[w].y * scales[w];
  }
  const float sink = p.sinks == nullptr ? -INFINITY : p.sinks[head] * kLog2E;
  FinalRow row = FinishRow({max, sum}, sink);
  float* const lse =
      p.lse == nullptr ? nullptr : p.lse + static_cast<int64_t>(token) * p.num_q_heads + head;
  float old_share = 0;
  if (p.merges) {
    old_share = MergeWith(*lse, row);
    __syncthreads();  // all have read it
  }
  const float scale = row.scale * (p.v_scales == nullptr ? 1.0f : p.v_scales[kv_head]);
  for (int32_t element = threadIdx.x; element < p.head_dim; element += 32 * kWarps) {
    float value = 0;
    for (int w = 0; w < kWarps; ++w) value += shared_out[w][element] * scales[w];
    value *= scale;
    Query& to = p.out[token * p.out_row_stride + head * p.head_dim + element];
    if (old_share > 0) value += old_share * static_cast<float>(to);
    to = static_cast<Query>(value);
  }
  if (threadIdx.x == 0 && lse != nullptr) *lse = row.lse;
}

template <typename Query, typename Kv>
void Launch(const GenericParams& params, cudaStream_t stream) {
  const KvCacheView& kv = params.kv_cache;
  const auto num_tokens = static_cast<unsigned>(params.q.dim(0));
  const auto num_q_heads = static_cast<unsigned>(params.q.dim(1));
  const KernelParams<Query, Kv> kernel_params = {.q = static_cast<const Query*>(params.q.data()),
                                                 .out = static_cast<Query*>(params.out.data()),
                                                 .q_row_stride = params.q.row_stride(),
                                                 .out_row_stride = params.out.row_stride(),
                                                 .lse = params.lse,
                                                 .k = static_cast<const Kv*>(kv.k.data),
                                                 .v = static_cast<const Kv*>(kv.v.data),
                                                 .block_stride = kv.k.block_stride,
                                                 .token_stride = kv.k.token_stride,
                                                 .head_stride = kv.k.head_stride,
                                                 .block_size = kv.block_size,
                                                 .num_q_heads = static_cast<int32_t>(num_q_heads),
                                                 .num_kv_heads = kv.num_kv_heads,
                                                 .head_dim = kv.k.head_dim,
                                                 .variant = params.variant,
                                                 .sinks = params.sinks,
                                                 .kv_dtype = kv.dtype,
                                                 .k_scales = kv.k.scales,
                                                 .v_scales = kv.v.scales,
                                                 .merges = params.merges,
                                                 .num_seqs = params.num_seqs,
                                                 .cu_seqlens_q = params.cu_seqlens_q,
                                                 .seq_lens = params.seq_lens,
                                                 .pages = params.pages};
  GenericAttention<<<dim3(num_tokens, num_q_heads), 32 * kWarps, 0, stream>>>(kernel_params);
}

}  // namespace

void LaunchGenericAttention(const GenericParams& params, cudaStream_t stream) {
  const bool float_kv = params.kv_cache.dtype == DType::kF32;
  if (IsFloat8(params.kv_cache.dtype)) {
    DispatchFloat(params.q.dtype(), [&]<typename T>() { Launch<T, Float8Bits>(params, stream); });
  } else if (params.q.dtype() == DType::kF16) {
    Launch<__half, __half>(params, stream);
  } else if (params.q.dtype() == DType::kF32) {
    float_kv ? Launch<float, float>(params, stream) : Launch<float, __nv_bfloat16>(params, stream);
  } else {
    float_kv ? Launch<__nv_bfloat16, float>(params, stream)
             : Launch<__nv_bfloat16, __nv_bfloat16>(params, stream);
  }
}

}  // namespace quire::cuda
