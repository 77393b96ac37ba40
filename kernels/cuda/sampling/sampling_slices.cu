#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/sampling/sampling_row.cuh"

namespace quire::cuda {

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kSegmentsPerWarp = kSegmentsPerSlice / kWarps;

struct SliceShared {
  SamplingRow row;
  uint32_t biased_ids[kSlice / 32];
  uint32_t segment_keys[kSegmentsPerSlice];
  float sums[kWarps];
};

// The lowest id of the lane's four values of this key, in a segment that begins at `segment_begin`.
__device__ int32_t FirstOfKey(const Four<float>& values, uint32_t key, int32_t segment_begin) {
  int32_t id = INT32_MAX;
#pragma unroll
  for (int j = 3; j >= 0; --j) {
    if (KeyOf(values.v[j]) == key)
      id = segment_begin + static_cast<int32_t>(threadIdx.x % 32) * 4 + j;
  }
  return __reduce_min_sync(kAllLanes, id);
}

// values[i] are this lane's of the warp's i-th segment. A scale of 0 asks for no sum.
__device__ void Summarise(const Four<float> (&values)[kSegmentsPerWarp], int32_t slice_begin,
                          int32_t vocab_size, float scale, SliceShared& shared,
                          SliceSummary& summary) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kSegmentsPerWarp; ++i) {
    const float* four = values[i].v;
    const float greatest =
        GreaterOrNan(GreaterOrNan(four[0], four[1]), GreaterOrNan(four[2], four[3]));
    const uint32_t key = __reduce_max_sync(kAllLanes, KeyOf(greatest));
    const int segment = warp * kSegmentsPerWarp + i;
    const bool is_empty = slice_begin + segment * kSegment >= vocab_size;
    if (lane == 0) shared.segment_keys[segment] = is_empty ? 0 : key;
  }
  __syncthreads();
  const uint32_t lane_key = shared.segment_keys[lane];
  const uint32_t max_key = __reduce_max_sync(kAllLanes, lane_key);
  const float max = LogitOf(max_key);
  if (warp == 0) summary.segment_keys[lane] = lane_key;

  const int max_segment =
      __ffs(static_cast<int>(__ballot_sync(kAllLanes, lane_key == max_key))) - 1;
#pragma unroll
  for (int i = 0; i < kSegmentsPerWarp; ++i) {
    if (warp * kSegmentsPerWarp + i != max_segment) continue;
    const int32_t id = FirstOfKey(values[i], max_key, slice_begin + max_segment * kSegment);
    if (lane == 0) summary.max = max;
    if (lane == 0) summary.max_id = id;
  }
  if (scale == 0) return;

  float sum = 0;
#pragma unroll
  for (int i = 0; i < kSegmentsPerWarp; ++i) {
    for (float value : values[i].v) sum += Exp2((value - max) * scale);
  }
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(kAllLanes, sum, step);
  if (lane == 0) shared.sums[warp] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float total = 0;
  for (float warp_sum : shared.sums) total += warp_sum;
  summary.sum = max == -INFINITY ? 0 : total;  // no weight, rather than that of -inf - -inf
}

__device__ void EditAll(const LogitView& view, int32_t first_id,
                        Four<float> (&values)[kSegmentsPerWarp]) {
  Four<int32_t> counts[kSegmentsPerWarp];
#pragma unroll
  for (int i = 0; i < kSegmentsPerWarp; ++i) counts[i] = view.LoadCounts(first_id + i * kSegment);
#pragma unroll
  for (int i = 0; i < kSegmentsPerWarp; ++i) {
    values[i] = view.Edit(first_id + i * kSegment, values[i], counts[i]);
  }
}

__device__ void MaskAll(const LogitView& view, int32_t first_id,
                        Four<float> (&values)[kSegmentsPerWarp]) {
  uint32_t bits[kSegmentsPerWarp];
#pragma unroll
  for (int i = 0; i < kSegmentsPerWarp; ++i) bits[i] = view.LoadMask(first_id + i * kSegment);
#pragma unroll
  for (int i = 0; i < kSegmentsPerWarp; ++i) values[i] = Masked(values[i], bits[i]);
}

// Grid: (slices, rows).
// Bytes: the logits read once; for rows with penalties their counts too, for rows with a mask its
// bits.
// Accumulation: float32, 16 per thread, then a tree.
// Limit: memory bandwidth; launch latency for a few rows.
__global__ void __launch_bounds__(kThreads)
    SummariseSlices(const __grid_constant__ SampleArgs args, const float* logits,
                    int64_t row_stride, int32_t vocab_size, SliceSummary* summaries) {
  ReleaseSuccessor();
  WaitForPredecessor();
  __shared__ SliceShared shared;
  const int64_t index = blockIdx.y;
  const SamplingRow& row = shared.row;
  const LogitView raw = {.logits = logits + index * row_stride,
                         .vocab_size = vocab_size,
                         .row = &row,
                         .counts = nullptr,
                         .bias = nullptr,
                         .biased_ids = nullptr,
                         .first_biased_id = 0,
                         .mask = nullptr};
  const int32_t begin = static_cast<int32_t>(blockIdx.x) * kSlice;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  const int32_t first_id = begin + thread / 32 * kSegmentsPerWarp * kSegment + thread % 32 * 4;
  // Under way before the row is known: both waits are as long, and padding rows are few.
  Four<float> values[kSegmentsPerWarp];
#pragma unroll
  for (int i = 0; i < kSegmentsPerWarp; ++i) values[i] = raw.Load(first_id + i * kSegment);
  if (threadIdx.x == 0) shared.row = args.rows[index];
  __syncthreads();
  const bool is_scored = row.target >= 0;
  if (!is_scored && row.row < 0) return;
#pragma unroll
  for (Four<float>& four : values) four = Cleaned(four);

  SliceSummary* summary = summaries + 2 * index * gridDim.x + blockIdx.x;
  if (row.num_logprobs >= 0) {
    Summarise(values, begin, vocab_size, kLog2E, shared, summary[gridDim.x]);
  }
  if (is_scored) return;
  const LogitView view = EditedView(raw, args, begin, begin + kSlice, shared.biased_ids);
  if (view.counts != nullptr || view.bias != nullptr) EditAll(view, first_id, values);
  if (view.mask != nullptr) MaskAll(view, first_id, values);
  const float scale = NeedsWeights(row, vocab_size) ? WeightScale(row.temperature) : 0;
  Summarise(values, begin, vocab_size, scale, shared, *summary);
}

}  // namespace

void LaunchSummariseSlices(const SampleArgs& args, SliceSummary* summaries, cudaStream_t stream) {
  const auto vocab_size = static_cast<int32_t>(args.logits.dim(1));
  const dim3 grid(CeilDiv(vocab_size, kSlice), static_cast<unsigned>(args.logits.dim(0)));
  LaunchKernel(SummariseSlices, grid, dim3(kThreads), 0, stream, args, args.logits.as<float>(),
               args.logits.row_stride(), vocab_size, summaries);
}

}  // namespace quire::cuda
