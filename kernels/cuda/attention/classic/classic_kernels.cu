#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>

#include "kernels/base/check.h"
#include "kernels/base/types.h"
#include "kernels/cuda/attention/classic/classic_kernels.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/vector.cuh"

namespace quire::cuda::classic {

namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr int kGroup = 2;  // threads that share a key, so that a warp has a block's 16 keys
constexpr int kX = 8;      // elements in 16 bytes
constexpr int kPart = kX / kGroup;                // of them, a thread's
constexpr int kColumns = kBlockTokens / kVector;  // threads that share a row of V
constexpr int kRowsAtOnce = 32 / kColumns;
constexpr float kLog2E = 1.4426950408889634f;

__device__ float ToFloat(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ float ToFloat(__half value) { return __half2float(value); }
__device__ void Store(__nv_bfloat16* to, float value) { *to = __float2bfloat16(value); }
__device__ void Store(__half* to, float value) { *to = __float2half(value); }

// One CTA per page and sequence.
__global__ void __launch_bounds__(kThreads) Convert(const __grid_constant__ ConvertParams p) {
  WaitForPredecessor();
  const auto page = static_cast<int32_t>(blockIdx.x), seq = static_cast<int32_t>(blockIdx.y);
  const int32_t first = page * kBlockTokens;
  if (first >= p.seq_lens[seq]) return;
  const KvCacheView& from = p.from;
  const int64_t block =
      p.block_tables[p.seq_rows[seq] * p.block_table_stride + first / from.block_size];
  const int64_t source =
      block * from.k.block_stride + first % from.block_size * from.k.token_stride;
  const int64_t target = int64_t{seq} * p.to.max_blocks + page;
  if (threadIdx.x == 0) p.to.tables[target] = static_cast<int32_t>(target);

  const auto* k = static_cast<const uint16_t*>(from.k.data);
  const auto* v = static_cast<const uint16_t*>(from.v.data);
  const int32_t num_elements = from.num_kv_heads * from.k.head_dim * kBlockTokens;
  auto* to_k = static_cast<uint16_t*>(p.to.k) + target * num_elements;
  auto* to_v = static_cast<uint16_t*>(p.to.v) + target * num_elements;
  for (auto i = static_cast<int32_t>(threadIdx.x); i < num_elements; i += kThreads) {
    const int32_t element = i % from.k.head_dim;
    const int32_t token = i / from.k.head_dim % kBlockTokens;
    const int32_t head = i / from.k.head_dim / kBlockTokens;
    const int64_t at = source + token * from.k.token_stride + head * from.k.head_stride + element;
    const int32_t row = head * from.k.head_dim;
    to_k[(row + element / kX * kX) * kBlockTokens + token * kX + element % kX] = k[at];
    to_v[(row + element) * kBlockTokens + token] = v[at];
  }
}

// Of all threads.
template <typename Combine>
__device__ float Reduce(float value, float* of_warps, const Combine& combine) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) {
    value = combine(value, __shfl_xor_sync(~0u, value, mask));
  }
  if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  value = of_warps[0];
#pragma unroll
  for (int i = 1; i < kWarps; ++i) value = combine(value, of_warps[i]);
  __syncthreads();
  return value;
}

// The keys [begin, end) of one sequence, for one head.
struct Partition {
  int32_t seq, head, kv_head;
  int32_t begin, end;
  int64_t state;  // where its results go

  __device__ int64_t Block(const DecodeParams& p, int32_t key) const {
    return p.cache.tables[int64_t{seq} * p.cache.max_blocks + key / kBlockTokens];
  }
};

// q . k of every key, in base 2; returns the thread's largest.
template <typename T, int kHeadDim>
__device__ float Score(const DecodeParams& p, const Partition& part, const float* q,
                       float* logits) {
  const int lane = threadIdx.x % kGroup;
  const unsigned group_mask = 3u << (threadIdx.x % 32 / kGroup * kGroup);
  static_assert(kGroup == 2);
  float largest = -INFINITY;
  for (int32_t key = part.begin + static_cast<int32_t>(threadIdx.x) / kGroup; key < part.end;
       key += kThreads / kGroup) {
    const T* k = static_cast<const T*>(p.cache.k) +
                 (part.Block(p, key) * p.num_kv_heads + part.kv_head) * kHeadDim * kBlockTokens +
                 key % kBlockTokens * kX + lane * kPart;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kHeadDim / kX; ++i) {
      const uint2 raw = *reinterpret_cast<const uint2*>(k + i * kBlockTokens * kX);
      const T* values = reinterpret_cast<const T*>(&raw);
#pragma unroll
      for (int j = 0; j < kPart; ++j) sum += q[i * kX + lane * kPart + j] * ToFloat(values[j]);
    }
    sum += __shfl_xor_sync(group_mask, sum, 1);
    if (lane == 0) logits[key - part.begin] = sum;
    largest = fmaxf(largest, sum);
  }
  return largest;
}

// The partition's probs times its values; complete in `sums` of warp 0 to kWarps - 1 together.
template <typename T, int kHeadDim>
__device__ void AddValues(const DecodeParams& p, const Partition& part, const float* probs,
                          float (*sums)[kHeadDim]) {
  constexpr int kRows = kHeadDim / kRowsAtOnce;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float acc[kRows] = {};
  for (int32_t key = part.begin + warp * kBlockTokens; key < part.end;
       key += kWarps * kBlockTokens) {
    const int32_t first = key + lane % kColumns * kVector;
    const T* v = static_cast<const T*>(p.cache.v) +
                 (part.Block(p, key) * p.num_kv_heads + part.kv_head) * kHeadDim * kBlockTokens +
                 lane % kColumns * kVector;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
      float values[kVector];
      Load(v + (lane / kColumns + i * kRowsAtOnce) * kBlockTokens, values);
#pragma unroll
      for (int j = 0; j < kVector; ++j) {
        // Values behind the sequence may be NaN.
        if (first + j < part.end) acc[i] += probs[first + j - part.begin] * values[j];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
#pragma unroll
    for (int mask = kColumns / 2; mask > 0; mask /= 2) {
      acc[i] += __shfl_xor_sync(~0u, acc[i], mask);
    }
    if (lane % kColumns == 0) sums[warp][lane / kColumns + i * kRowsAtOnce] = acc[i];
  }
}

template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kThreads)
    AttendPartition(const __grid_constant__ DecodeParams p) {
  WaitForPredecessor();
  const auto head = static_cast<int32_t>(blockIdx.x), seq = static_cast<int32_t>(blockIdx.y);
  const auto index = static_cast<int32_t>(blockIdx.z);
  const Partition part = {
      .seq = seq,
      .head = head,
      .kv_head = head / (p.num_q_heads / p.num_kv_heads),
      .begin = index * kPartitionTokens,
      .end = min((index + 1) * kPartitionTokens, p.seq_lens[seq]),
      .state = (int64_t{seq} * p.num_q_heads + head) * p.max_partitions + index};
  if (part.begin >= part.end) return;

  __shared__ float q[kHeadDim];
  __shared__ float logits[kPartitionTokens];
  __shared__ float sums[kWarps][kHeadDim];
  __shared__ float of_warps[kWarps];
  const T* row =
      static_cast<const T*>(p.q) + p.cu_seqlens_q[seq] * p.q_row_stride + int64_t{head} * kHeadDim;
  for (int i = threadIdx.x; i < kHeadDim; i += kThreads) {
    q[i] = ToFloat(row[i]) * p.scale * kLog2E;
  }
  __syncthreads();
  const float largest = Reduce(Score<T, kHeadDim>(p, part, q, logits), of_warps,
                               [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (int32_t i = threadIdx.x; i < part.end - part.begin; i += kThreads) {
    logits[i] = exp2f(logits[i] - largest);
    sum += logits[i];
  }
  sum = Reduce(sum, of_warps, [](float a, float b) { return a + b; });
  AddValues<T, kHeadDim>(p, part, logits, sums);
  __syncthreads();
  for (int i = threadIdx.x; i < kHeadDim; i += kThreads) {
    float total = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) total += sums[warp][i];
    p.partial_out[part.state * kHeadDim + i] = total;
  }
  if (threadIdx.x == 0) p.partial_state[part.state] = {largest, sum};
}

// One CTA per head and sequence, a thread per element.
template <typename T, int kHeadDim>
__global__ void __launch_bounds__(kHeadDim) Combine(const __grid_constant__ DecodeParams p) {
  WaitForPredecessor();
  const auto head = static_cast<int32_t>(blockIdx.x), seq = static_cast<int32_t>(blockIdx.y);
  const int32_t num_partitions = CeilDiv(p.seq_lens[seq], kPartitionTokens);
  const int64_t first = (int64_t{seq} * p.num_q_heads + head) * p.max_partitions;
  float largest = -INFINITY;
  for (int i = 0; i < num_partitions; ++i) {
    largest = fmaxf(largest, p.partial_state[first + i].x);
  }
  float total = 0, sum = 0;
  for (int i = 0; i < num_partitions; ++i) {
    const float2 state = p.partial_state[first + i];
    const float factor = exp2f(state.x - largest);
    sum += state.y * factor;
    total += p.partial_out[(first + i) * kHeadDim + threadIdx.x] * factor;
  }
  const int64_t token = p.cu_seqlens_q[seq];
  Store(static_cast<T*>(p.out) + token * p.out_row_stride + int64_t{head} * kHeadDim + threadIdx.x,
        num_partitions == 0 ? 0 : total / sum);
  if (p.lse != nullptr && threadIdx.x == 0) {
    p.lse[token * p.num_q_heads + head] = num_partitions == 0 ? -INFINITY : largest + log2f(sum);
  }
}

template <typename T, int kHeadDim>
void Launch(const DecodeParams& p, cudaStream_t stream) {
  LaunchKernel(AttendPartition<T, kHeadDim>, dim3(p.num_q_heads, p.num_seqs, p.max_partitions),
               dim3(kThreads), 0, stream, p);
  LaunchKernel(Combine<T, kHeadDim>, dim3(p.num_q_heads, p.num_seqs), dim3(kHeadDim), 0, stream, p);
}

template <typename T>
void Launch(const DecodeParams& p, cudaStream_t stream) {
  switch (p.head_dim) {
    case 64:
      return Launch<T, 64>(p, stream);
    case 128:
      return Launch<T, 128>(p, stream);
    default:
      CHECK_EQ(p.head_dim, 256);
      return Launch<T, 256>(p, stream);
  }
}

}  // namespace

void LaunchConvert(const ConvertParams& params, cudaStream_t stream) {
  LaunchKernel(Convert, dim3(params.to.max_blocks, params.num_seqs), dim3(kThreads), 0, stream,
               params);
}

void LaunchDecode(const DecodeParams& params, cudaStream_t stream) {
  params.dtype == DType::kF16 ? Launch<__half>(params, stream)
                              : Launch<__nv_bfloat16>(params, stream);
}

}  // namespace quire::cuda::classic
