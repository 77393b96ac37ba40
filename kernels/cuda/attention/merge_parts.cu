#include "kernels/base/check.h"
#include "kernels/base/types.h"
#include "kernels/cuda/attention/merge_parts.h"
#include "kernels/cuda/attention/tiles/softmax_state.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/vector.cuh"

namespace quire::cuda {

namespace {

constexpr int kWarps = 4;
constexpr int kPartsAtOnce = 4;

// The sequence that has the token, or num_seqs: by all lanes of a warp, a comparison each.
__device__ int32_t SeqOf(const MergePartsParams& p, int32_t token) {
  if (token < p.tiled.cu_seqlens_q[0]) return p.num_seqs;
  int32_t num_before = 0;
  for (int32_t first = 0; first < p.num_seqs; first += 32) {
    const int32_t seq = first + static_cast<int32_t>(threadIdx.x) % 32;
    const bool is_before = seq < p.num_seqs && p.tiled.cu_seqlens_q[seq + 1] <= token;
    num_before += __popc(__ballot_sync(0xffffffff, is_before));
  }
  return num_before;
}

// The parts of one row.
template <typename T>
struct RowParts {
  const T* out;         // of the first
  const float2* state;  // likewise
  int64_t stride;       // rows between two parts
  int32_t num_parts;
};

template <typename T, int kPartDim>
__device__ RowParts<T> PartsOf(const MergePartsParams& p, int32_t seq, int32_t token,
                               int32_t head) {
  const int32_t group_size = p.tiled.num_q_heads / p.tiled.num_kv_heads;
  const int32_t packed_row = (token - p.tiled.cu_seqlens_q[seq]) * group_size + head % group_size;
  const SeqPlan plan = p.seq_plans[seq];
  const int64_t part = plan.first_partial + packed_row / p.tiled.work.tile_rows * plan.num_splits;
  const int64_t row =
      (part * p.tiled.num_kv_heads + head / group_size) * p.tiled.work.partial_rows +
      packed_row % p.tiled.work.tile_rows;
  return {reinterpret_cast<const T*>(p.tiled.work.partial_out) + row * kPartDim,
          p.tiled.work.partial_state + row,
          int64_t{p.tiled.num_kv_heads} * p.tiled.work.partial_rows, plan.num_splits};
}

// Eight columns of some parts together, relative to the largest of their maxima.
struct Columns {
  float2 state = {-INFINITY, 0};
  float sum[kVector] = {};

  __device__ void RaiseMaximum(float max) {
    if (max <= state.x) return;
    const float rescale = Rescale(state.x, max);
    state = {max, state.y * rescale};
#pragma unroll
    for (float& value : sum) value *= rescale;
  }
  // A part whose maximum is no larger.
  __device__ void Add(float2 part, const float (&values)[kVector]) {
    const float share = Rescale(part.x, state.x);
    state.y += share * part.y;
#pragma unroll
    for (int i = 0; i < kVector; ++i) sum[i] += share * values[i];
  }
  // Merges the lanes whose numbers differ in bits of at least `least`; all of them get the result.
  __device__ void MergeLanes(int least) {
    for (int lanes = 16; lanes >= least; lanes /= 2) {
      const float2 other = {__shfl_xor_sync(0xffffffff, state.x, lanes),
                            __shfl_xor_sync(0xffffffff, state.y, lanes)};
      float values[kVector];
#pragma unroll
      for (int i = 0; i < kVector; ++i) values[i] = __shfl_xor_sync(0xffffffff, sum[i], lanes);
      RaiseMaximum(other.x);
      Add(other, values);
    }
  }
};

// A warp has all columns once or more often, and its sides share out the parts.
template <typename T, int kPartDim>
__device__ Columns SumParts(const RowParts<T>& parts) {
  constexpr int kLanes = kPartDim / kVector, kSides = 32 / kLanes;
  const int lane = threadIdx.x % 32;
  const T* const from = parts.out + lane % kLanes * kVector;
  Columns columns;
  for (int32_t first = lane / kLanes; first < parts.num_parts; first += kSides * kPartsAtOnce) {
    float2 states[kPartsAtOnce];
    float values[kPartsAtOnce][kVector];
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i) {
      const int32_t part = first + i * kSides;
      // Beyond the last part this reads the last one again, and counts it as a part without keys.
      const int64_t at = min(part, parts.num_parts - 1) * parts.stride;
      states[i] = parts.state[at];
      Load(from + at * kPartDim, values[i]);
      if (part >= parts.num_parts) states[i] = {-INFINITY, 0};
    }
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i) columns.RaiseMaximum(states[i].x);
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i) columns.Add(states[i], values[i]);
  }
  columns.MergeLanes(kLanes);
  return columns;
}

// Grid: a warp for each head of each token.
// Bytes: every part read once; out read and written once.
// Accumulation: float32, in a fixed order.
// Limit: the latency of what follows each other: the row's place, its parts, the store.
template <typename T, int kPartDim>
__global__ void __launch_bounds__(32 * kWarps)
    MergePartsKernel(const __grid_constant__ MergePartsParams p) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const auto row = static_cast<int32_t>(blockIdx.x * kWarps + threadIdx.x / 32);
  if (row >= p.num_tokens * p.tiled.num_q_heads) return;
  const int32_t token = row / p.tiled.num_q_heads, head = row % p.tiled.num_q_heads;
  const int32_t column = static_cast<int32_t>(threadIdx.x) % 32 * kVector;
  const bool has_columns = column < p.tiled.head_dim;
  T* const out = static_cast<T*>(p.tiled.out) + token * p.tiled.out_row_stride +
                 int64_t{head} * p.tiled.head_dim + column;
  const float old_lse = p.tiled.lse[row];
  float old[kVector] = {};
  if (has_columns) Load(out, old);

  const int32_t seq = SeqOf(p, token);
  if (seq >= p.num_seqs || p.tiled.seq_lens[seq] == 0) return;
  const Columns columns = SumParts<T, kPartDim>(PartsOf<T, kPartDim>(p, seq, token, head));
  FinalRow merged = FinishRow(columns.state, -INFINITY);
  const float old_share = MergeWith(old_lse, merged);
  if (column == 0) p.tiled.lse[row] = merged.lse;
  if (!has_columns) return;
  float result[kVector];
#pragma unroll
  for (int i = 0; i < kVector; ++i) {
    result[i] = columns.sum[i] * merged.scale + (old_share > 0 ? old_share * old[i] : 0.0f);
  }
  Store(result, out);
}

template <typename T>
auto KernelFor(int32_t part_dim) {
  CHECK(part_dim == 64 || part_dim == 128 || part_dim == 256);
  return part_dim == 64    ? MergePartsKernel<T, 64>
         : part_dim == 128 ? MergePartsKernel<T, 128>
                           : MergePartsKernel<T, 256>;
}

}  // namespace

void LaunchMergeParts(const MergePartsParams& params, cudaStream_t stream) {
  const int32_t num_rows = params.num_tokens * params.tiled.num_q_heads;
  if (num_rows == 0) return;
  const auto kernel = params.tiled.query_dtype == DType::kBF16
                          ? KernelFor<__nv_bfloat16>(params.part_dim)
                          : KernelFor<__half>(params.part_dim);
  LaunchKernel(kernel, dim3(CeilDiv(num_rows, kWarps)), dim3(32 * kWarps), 0, stream, params);
}

}  // namespace quire::cuda
