#include <algorithm>

#include "kernels/base/check.h"
#include "kernels/base/philox.h"
#include "kernels/cuda/runtime/free_ops.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/sampling/sampling.h"
#include "kernels/cuda/sampling/sampling_select.cuh"

namespace quire::cuda {

namespace {

struct SampleShared {
  SelectShared select;
  SamplingRow row;
  double uniform;  // in [0, 1), of the row's draw
};

// Dynamic shared memory: a word per segment each, and a bit per token.
struct SegmentArrays {
  uint32_t* keys;
  int32_t* segments;
  uint32_t* biased_ids;

  __device__ SegmentArrays(uint32_t* memory, int32_t num_segments)
      : keys(memory),
        segments(reinterpret_cast<int32_t*>(memory + num_segments)),
        biased_ids(memory + 2 * num_segments) {}

  static size_t Bytes(int32_t num_segments) {
    return static_cast<size_t>(num_segments) * (2 + kSegment / 32) * sizeof(uint32_t);
  }
};

// What the slices of a row say together.
struct RowSummary {
  const SliceSummary* slices;
  int32_t num_slices;
  float max;
  int32_t max_id;  // the lowest
};

// Every warp does the same.
__device__ RowSummary SummariseRow(const SliceSummary* slices, int32_t num_slices) {
  uint64_t best = 0;
#pragma unroll 1
  for (int32_t i = threadIdx.x % 32; i < num_slices; i += 32) {
    best = max(best, RankOf(KeyOf(slices[i].max), slices[i].max_id));
  }
  for (int step = 16; step > 0; step /= 2) {
    best = max(best, __shfl_xor_sync(0xffffffff, best, step));
  }
  return {slices, num_slices, LogitOf(KeyOfRank(best)), IdOfRank(best)};
}

__device__ uint64_t SliceWeight(const SliceSummary& slice, const LogitWeight& weight) {
  return __float2ull_rn(slice.sum * weight(slice.max));
}

// Every warp does the same.
__device__ uint64_t TotalWeight(const RowSummary& summary, const LogitWeight& weight) {
  uint64_t total = 0;
#pragma unroll 1
  for (int32_t i = threadIdx.x % 32; i < summary.num_slices; i += 32) {
    total += SliceWeight(summary.slices[i], weight);
  }
  for (int step = 16; step > 0; step /= 2) total += __shfl_xor_sync(0xffffffff, total, step);
  return total;
}

// What top-p keeps of a total: the tokens before a kept one sum to less than this.
__device__ uint64_t MassTarget(float top_p, uint64_t total) {
  const double mass = ceil(static_cast<double>(fmaxf(top_p, 0.0f)) * static_cast<double>(total));
  return max(uint64_t{1}, min(total, static_cast<uint64_t>(mass)));
}

// A key so low that all tokens below it together weigh less than what top-p leaves out.
__device__ uint32_t FloorOfMass(float top_p, uint64_t total, const LogitWeight& weight,
                                int32_t vocab_size) {
  const float left_out = (1.0f - fmaxf(top_p, 0.0f)) * (static_cast<float>(total) / kWeightOne);
  // Half of that, because all of this is rounded.
  const float floor =
      weight.max + (log2f(left_out / static_cast<float>(vocab_size)) - 1.0f) / weight.scale;
  return KeyOf(fminf(floor, weight.max));
}

__device__ uint32_t FloorOfMinP(float min_p, const LogitWeight& weight) {
  if (min_p <= 0) return 0;
  // The first token stays, whatever min_p.
  return KeyOf(fminf(weight.max, weight.max + log2f(min_p) / weight.scale));
}

// 1 + the target of a draw: the first running sum that reaches it is the first to pass the target.
__device__ uint64_t DrawTarget(double uniform, uint64_t total) {
  const double target = uniform * static_cast<double>(total);
  return min(static_cast<uint64_t>(target), total - 1) + 1;
}

// The list's length as of RowSelector::List, with all tokens from this rank up.
__device__ int32_t ListFrom(uint64_t least, RowSelector& selector) {
  return selector.List(RankFloor(least));
}

struct DrawParams {
  const LogitView& view;
  const SamplingRow& row;
  const RowSummary& summary;
  const LogitWeight& weight;
  SampleShared& shared;
};

// Without filters: first a slice, then a token of it.
__device__ int32_t DrawFromAll(const DrawParams& params, RowSelector& selector) {
  const RowSummary& summary = params.summary;
#pragma unroll 1
  for (int32_t i = threadIdx.x; i < summary.num_slices; i += kSampleThreads) {
    selector.list()[i] = SliceWeight(summary.slices[i], params.weight);
  }
  __syncthreads();
  uint64_t target = 0;
  const Found slice = selector.FindInList(
      summary.num_slices, [](uint64_t weight) { return weight; },
      [&](uint64_t total) { return target = DrawTarget(params.shared.uniform, total); });
  const int32_t begin = slice.index * kSegmentsPerSlice;
  const int32_t end = min(begin + kSegmentsPerSlice, CeilDiv(params.view.vocab_size, kSegment));
  const int32_t id = selector.FindIdIn(nullptr, begin, end, target - 1 - slice.before,
                                       TokenWeight::Weight(params.weight, 0));
  return id >= 0 ? id : summary.max_id;
}

// Among the tokens of at least this rank, all in segments that the selector sees.
__device__ int32_t DrawFromRow(const DrawParams& params, uint64_t least, RowSelector& selector) {
  const TokenWeight weight = TokenWeight::Weight(params.weight, least);
  const uint64_t total = selector.Sum(weight);
  return selector.FindId(DrawTarget(params.shared.uniform, total) - 1, weight);
}

// The least rank that top-k and top-p keep, where too many tokens reach `floor` to be sorted.
__device__ uint64_t LeastKept(const DrawParams& params, uint32_t floor, uint64_t total,
                              RowSelector& selector) {
  const SamplingRow& row = params.row;
  const uint32_t max_key = KeyOf(params.summary.max);
  uint64_t least = LeastRankOf(floor);
  if (UsesTopK(row, params.view.vocab_size)) {
    floor = KeyOfRank(selector.SelectRank(floor, max_key, row.top_k, TokenWeight::One(least)));
    least = LeastRankOf(floor);  // with all that equal the k-th
  }
  if (row.top_p >= 1) return least;
  const TokenWeight weight = TokenWeight::Weight(params.weight, least);
  if (total == 0) total = selector.Sum(weight);
  return selector.SelectRank(floor, max_key, MassTarget(row.top_p, total), weight);
}

// The same and the draw where the list holds the `count` tokens that reach the floor.
__device__ int32_t DrawFromList(const DrawParams& params, int32_t count, uint64_t total,
                                RowSelector& selector) {
  const SamplingRow& row = params.row;
  const auto weight_of_key = [&](uint32_t key) {
    return __float2ull_rn(params.weight(LogitOf(key)));
  };
  selector.SortList(count);
  if (UsesTopK(row, params.view.vocab_size)) {
    const uint32_t last = KeyOfRank(selector.list()[min(row.top_k, count) - 1]);
    count = selector.CountListed(count, LeastRankOf(last));
  }
  if (row.top_p < 1) {
    const auto target_of = [&](uint64_t listed) {
      return MassTarget(row.top_p, total == 0 ? listed : total);
    };
    const auto weight_of = [&](uint64_t rank) { return weight_of_key(KeyOfRank(rank)); };
    count = selector.FindInList(count, weight_of, target_of).index + 1;
  }
  if (row.min_p > 0) {
    count = selector.CountListed(count, LeastRankOf(FloorOfMinP(row.min_p, params.weight)));
  }
  // A draw goes by id: the ids' complements first, then the keys.
  __syncthreads();
#pragma unroll 1
  for (int32_t i = threadIdx.x; i < count; i += kSampleThreads) {
    const uint64_t rank = selector.list()[i];
    selector.list()[i] = (rank & kMaxSampledId) << 32 | KeyOfRank(rank);
  }
  selector.SortList(count);
  const Found found = selector.FindInList(
      count, [&](uint64_t item) { return weight_of_key(static_cast<uint32_t>(item)); },
      [&](uint64_t kept) { return DrawTarget(params.shared.uniform, kept); });
  return kMaxSampledId - static_cast<int32_t>(selector.list()[found.index] >> 32);
}

// The sum of the kept, which are the first of the ranking, from what each says of itself: its place
// and the sum up to it.
__device__ uint64_t SumOfKept(bool is_kept, int32_t place, uint64_t up_to, SelectShared& shared) {
  const int32_t num_kept = __syncthreads_count(is_kept ? 1 : 0);
  if (is_kept && place == num_kept - 1) shared.found_before = up_to;
  __syncthreads();
  return shared.found_before;
}

// The same as DrawFromList where the tokens are so few that each is compared with all: no sort, no
// scan, few barriers. A token has a group of lanes, whose first speaks for it.
__device__ int32_t DrawFromFew(const DrawParams& params, int32_t count, uint64_t total) {
  const SamplingRow& row = params.row;
  SelectShared& shared = params.shared.select;
  const uint64_t* list = shared.list;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  if (thread < count) {
    shared.weights[thread] = __float2ull_rn(params.weight(LogitOf(KeyOfRank(list[thread]))));
  }
  __syncthreads();
  int group = 1;
  while (group < 32 && 2 * group * count <= kSampleThreads) group *= 2;
  const int32_t token = thread / group;
  const int32_t part = thread % group;
  const uint64_t rank = token < count ? list[token] : 0;
  const uint64_t weight = token < count ? shared.weights[token] : 0;
  int32_t place = 0;
  uint64_t before = 0;
  for (int32_t i = part; i < count; i += group) {
    if (list[i] <= rank) continue;
    ++place;
    before += shared.weights[i];
  }
  for (int step = group / 2; step > 0; step /= 2) {
    place += __shfl_xor_sync(0xffffffff, place, step);
    before += __shfl_xor_sync(0xffffffff, before, step);
  }

  const bool speaks = token < count && part == 0;
  bool is_kept = speaks;
  if (UsesTopK(row, params.view.vocab_size)) {
    if (speaks && place == min(row.top_k, count) - 1) shared.found_before = KeyOfRank(rank);
    __syncthreads();
    is_kept = is_kept && KeyOfRank(rank) >= shared.found_before;
  }
  if (row.top_p < 1) {
    if (total == 0) total = SumOfKept(is_kept, place, before + weight, shared);
    is_kept = is_kept && before < MassTarget(row.top_p, total);
  }
  if (row.min_p > 0) {
    is_kept = is_kept && KeyOfRank(rank) >= FloorOfMinP(row.min_p, params.weight);
  }
  const uint64_t kept = SumOfKept(is_kept, place, before + weight, shared);
  if (speaks && !is_kept) shared.weights[token] = 0;
  __syncthreads();

  const uint64_t target = DrawTarget(params.shared.uniform, kept);
  uint64_t below = 0;  // of lower ids
  for (int32_t i = part; i < count; i += group) {
    if (IdOfRank(list[i]) < IdOfRank(rank)) below += shared.weights[i];
  }
  for (int step = group / 2; step > 0; step /= 2) {
    below += __shfl_xor_sync(0xffffffff, below, step);
  }
  if (is_kept && below < target && below + weight >= target) shared.found = IdOfRank(rank);
  __syncthreads();
  return shared.found;
}

__device__ int32_t Draw(const LogitView& view, const SamplingRow& row, const RowSummary& summary,
                        const SegmentArrays& arrays, SampleShared& shared) {
  if (summary.max == -INFINITY) return 0;
  const LogitWeight weight = {summary.max, WeightScale(row.temperature)};
  const DrawParams params = {view, row, summary, weight, shared};
  // By one warp, while the others begin; used behind a barrier.
  if (threadIdx.x == kSampleThreads - 1) shared.uniform = UniformAt(row.seed, row.position);
  RowSelector selector(view, shared.select, arrays.keys, arrays.segments);
  const bool uses_top_k = UsesTopK(row, view.vocab_size);
  const bool uses_top_p = row.top_p < 1;
  if (!uses_top_k && !uses_top_p) {
    if (row.min_p <= 0) return DrawFromAll(params, selector);
    selector.ReadSegmentKeys(summary.slices);
    const uint32_t floor = FloorOfMinP(row.min_p, weight);
    selector.Prune(floor);
    return DrawFromRow(params, LeastRankOf(floor), selector);
  }
  selector.ReadSegmentKeys(summary.slices);
  // Of all tokens; 0 where top-p is of what top-k keeps.
  const uint64_t total = uses_top_k ? 0 : TotalWeight(summary, weight);
  const uint32_t floor = uses_top_k ? selector.FloorOfTop(row.top_k, KeyOf(summary.max))
                                    : FloorOfMass(row.top_p, total, weight, view.vocab_size);
  selector.Prune(floor);
  const int32_t count = ListFrom(LeastRankOf(floor), selector);
  if (count <= kFewTokens) return DrawFromFew(params, count, total);
  if (count <= kListSize) return DrawFromList(params, count, total, selector);
  const uint64_t least = LeastKept(params, floor, total, selector);
  const uint64_t least_by_min_p = LeastRankOf(FloorOfMinP(row.min_p, weight));
  return DrawFromRow(params, max(least, least_by_min_p), selector);
}

// Log-softmax of the unmodified logits of one row.
struct LogProbs {
  float max;
  double log_sum;

  // -infinity for a logit of -infinity, even where all are.
  __device__ float Of(float logit) const {
    if (logit == -INFINITY) return -INFINITY;
    return static_cast<float>(static_cast<double>(logit) - max - log_sum);
  }
};

// Lists the `num` most likely tokens, the first of the ranking first.
__device__ void ListTop(uint32_t max_key, int32_t num, RowSelector& selector) {
  const uint32_t floor = selector.FloorOfTop(num, max_key);
  selector.Prune(floor);
  int32_t count = ListFrom(LeastRankOf(floor), selector);
  if (count > kListSize) {
    const TokenWeight one = TokenWeight::One(LeastRankOf(floor));
    count = ListFrom(selector.SelectRank(floor, max_key, num, one), selector);
  }
  selector.SortList(count);
}

__device__ void ReportLogprobs(const LogitView& raw, const SampleArgs& args, int64_t index,
                               int32_t id, const RowSummary& summary, const SegmentArrays& arrays,
                               SelectShared& shared) {
  const LogitWeight weight = {summary.max, kLog2E};
  const double total = static_cast<double>(TotalWeight(summary, weight)) / kWeightOne;
  const LogProbs logprobs = {summary.max, log(total)};
  RowSelector selector(raw, shared, arrays.keys, arrays.segments);
  selector.ReadSegmentKeys(summary.slices);

  const float logit = Clean(raw.logits[id]);
  const uint64_t rank = RankOf(KeyOf(logit), id);
  selector.Prune(KeyOf(logit));
  const uint64_t num_before = selector.Sum(TokenWeight::One(rank + 1));
  if (threadIdx.x == 0) {
    args.sampled_logprobs[index] = logprobs.Of(logit);
    args.sampled_ranks[index] = static_cast<int32_t>(num_before) + 1;
  }
  const int32_t num_top = min(min(raw.row->num_logprobs, kMaxLogprobs), raw.vocab_size);
  if (num_top <= 0) return;
  ListTop(KeyOf(summary.max), num_top, selector);
  const auto i = static_cast<int32_t>(threadIdx.x);
  if (i >= num_top) return;
  const uint64_t top = selector.list()[i];
  args.top_ids[index * kMaxLogprobs + i] = IdOfRank(top);
  args.top_logprobs[index * kMaxLogprobs + i] = logprobs.Of(LogitOf(KeyOfRank(top)));
}

// Grid: one CTA per row.
// Bytes: the slices' summaries, and of the logits the segments that can matter: some 30 KB of a row
// for top-k 50; all of them twice or three times where top-p keeps most of a flat distribution.
// Accumulation: 64-bit integers.
// Limit: latency of some ten short passes; the L2's bandwidth in the latter case.
__global__ void __launch_bounds__(kSampleThreads, 2)
    Sample(const __grid_constant__ SampleArgs args, const float* logits, int64_t row_stride,
           int32_t vocab_size, const SliceSummary* summaries) {
  ReleaseSuccessor();
  WaitForPredecessor();
  extern __shared__ uint32_t dynamic_shared[];
  __shared__ SampleShared shared;
  const int64_t index = blockIdx.x;
  if (threadIdx.x == 0) shared.row = args.rows[index];
  __syncthreads();
  const SamplingRow& row = shared.row;
  const bool is_scored = row.target >= 0;
  if (row.target >= vocab_size) __trap();
  if (!is_scored && row.row < 0) {
    if (threadIdx.x == 0) args.sampled_ids[index] = -1;
    return;
  }
  const SegmentArrays arrays(dynamic_shared, CeilDiv(vocab_size, kSegment));
  const LogitView raw = {.logits = logits + index * row_stride,
                         .vocab_size = vocab_size,
                         .row = &row,
                         .counts = nullptr,
                         .bias = nullptr,
                         .biased_ids = nullptr,
                         .first_biased_id = 0};
  const int32_t num_slices = CeilDiv(vocab_size, kSlice);
  const SliceSummary* slices = summaries + 2 * index * num_slices;
  int32_t id = row.target;
  if (!is_scored) {
    const RowSummary summary = SummariseRow(slices, num_slices);
    id = summary.max_id;
    if (row.temperature > 0) {
      const LogitView view = EditedView(raw, args, 0, vocab_size, arrays.biased_ids);
      id = Draw(view, row, summary, arrays, shared);
    }
  }
  if (row.num_logprobs >= 0) {
    const RowSummary summary = SummariseRow(slices + num_slices, num_slices);
    ReportLogprobs(raw, args, index, id, summary, arrays, shared.select);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  args.sampled_ids[index] = id;
  if (is_scored) return;
  args.row_last_token[row.row] = id;
  if (UsesPenalties(row)) ++args.token_counts[static_cast<int64_t>(row.row) * vocab_size + id];
}

__global__ void CountTokens(const __grid_constant__ ResetTokenCountsArgs args) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= args.num_tokens) return;
  int32_t* count = args.token_counts + args.row * args.vocab_size + args.tokens[i];
  if (i < args.num_prompt_tokens) {
    atomicOr(count, kPromptTokenBit);
  } else {
    atomicAdd(count, 1);
  }
}

// The arguments of rows [first, first + num_rows).
SampleArgs RowsFrom(const SampleArgs& args, int64_t first, int64_t num_rows) {
  SampleArgs rows = args;
  const int64_t stride = args.logits.row_stride();
  rows.logits =
      Tensor(args.logits.as<float>() + first * stride, DType::kF32, {num_rows, args.logits.dim(1)})
          .WithRowStride(stride);
  rows.rows += first;
  rows.sampled_ids += first;
  rows.sampled_logprobs += first;
  rows.sampled_ranks += first;
  rows.top_ids += first * kMaxLogprobs;
  rows.top_logprobs += first * kMaxLogprobs;
  return rows;
}

}  // namespace

void LaunchSample(const SampleArgs& args, void* workspace, cudaStream_t stream) {
  const int64_t num_rows = args.logits.dim(0);
  const auto vocab_size = static_cast<int32_t>(args.logits.dim(1));
  CHECK_LE(args.logits.dim(1), int64_t{kSlice} * kListSize);
  const int64_t row_bytes = 2 * CeilDiv(vocab_size, kSlice) * int64_t{sizeof(SliceSummary)};
  const int64_t rows_at_once = kSampleWorkspaceBytes / row_bytes;
  auto* summaries = static_cast<SliceSummary*>(workspace);
  const size_t shared_bytes = SegmentArrays::Bytes(CeilDiv(vocab_size, kSegment));
  // Above the default limit a kernel must be allowed its shared memory; a refusal shows at launch.
  (void)cudaFuncSetAttribute(Sample, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(shared_bytes));
  for (int64_t first = 0; first < num_rows; first += rows_at_once) {
    const SampleArgs rows = RowsFrom(args, first, std::min(rows_at_once, num_rows - first));
    LaunchSummariseSlices(rows, summaries, stream);
    LaunchKernel(Sample, dim3(static_cast<unsigned>(rows.logits.dim(0))), dim3(kSampleThreads),
                 shared_bytes, stream, rows, rows.logits.as<float>(), rows.logits.row_stride(),
                 vocab_size, summaries);
  }
}

void LaunchResetTokenCounts(const ResetTokenCountsArgs& args, cudaStream_t stream) {
  (void)cudaMemsetAsync(args.token_counts + args.row * args.vocab_size, 0, args.vocab_size * 4,
                        stream);
  if (args.num_tokens == 0) return;
  constexpr int kThreads = 256;
  CountTokens<<<static_cast<unsigned>(CeilDiv<int64_t>(args.num_tokens, kThreads)), kThreads, 0,
                stream>>>(args);
}

}  // namespace quire::cuda
