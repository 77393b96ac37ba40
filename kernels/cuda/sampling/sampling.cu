#include <algorithm>

#include "kernels/base/check.h"
#include "kernels/base/philox.h"
#include "kernels/cuda/runtime/free_ops.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/sampling/sampling.h"
#include "kernels/cuda/sampling/sampling_select.cuh"

namespace quire::cuda {

namespace {

// The summaries of a row's slices, together.
struct RowSummary {
  const SliceSummary* slices;
  int32_t num_slices;
  float max;
  int32_t max_id;  // the lowest

  // A NaN's key is greater than all others', so it is the greatest of a row that has one.
  __device__ bool IsBroken() const { return isnan(max); }
};

// Every warp does the same.
__device__ RowSummary SummariseRow(const SliceSummary* slices, int32_t num_slices) {
  uint64_t best = 0;
#pragma unroll 2
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

// The part of a total that top-p keeps: the tokens before a kept one sum to less than this.
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
};

// Without filters: first a slice, then a token of it.
__device__ int32_t DrawFromAll(const DrawParams& params, RowSelector& selector) {
  const RowSummary& summary = params.summary;
#pragma unroll 1
  for (int32_t i = threadIdx.x; i < summary.num_slices; i += kSampleThreads) {
    Shared().list[i] = SliceWeight(summary.slices[i], params.weight);
  }
  __syncthreads();
  uint64_t target = 0;
  const Found slice = selector.FindInList(
      summary.num_slices, [](uint64_t weight) { return weight; },
      [&](uint64_t total) { return target = DrawTarget(Shared().uniform, total); });
  const int32_t begin = slice.index * kSegmentsPerSlice;
  const int32_t end = min(begin + kSegmentsPerSlice, CeilDiv(params.view.vocab_size, kSegment));
  const int32_t id = selector.FindIdIn(false, begin, end, target - 1 - slice.before,
                                       TokenWeight::Weight(params.weight, 0));
  return id >= 0 ? id : summary.max_id;
}

// Among the tokens of at least this rank, all in segments that the selector sees.
__device__ int32_t DrawFromRow(const DrawParams& params, uint64_t least, RowSelector& selector) {
  const TokenWeight weight = TokenWeight::Weight(params.weight, least);
  const uint64_t total = selector.Sum(weight);
  const int32_t id = selector.FindId(DrawTarget(Shared().uniform, total) - 1, weight);
  return id >= 0 ? id : params.summary.max_id;
}

// Lists the tokens from the first of the ranking down to some rank that top-p does not keep, or
// all that reach `floor`, which many do unless the distribution is peaked. Returns their number as
// of RowSelector::List.
__device__ int32_t ListNucleus(const DrawParams& params, uint32_t floor, uint64_t total,
                               RowSelector& selector) {
  const auto weight_of = [&](uint64_t rank) { return params.weight.OfRank(rank); };
  const uint64_t target = MassTarget(params.row.top_p, total);
  const int32_t num_segments = CeilDiv(params.view.vocab_size, kSegment);
  constexpr int32_t kMost = 1000;  // three in four of 1,333, whose list has some 1,850 tokens
  selector.Prune(floor);
  if (selector.num_entries() > kFewTokens) {
    // A list that holds all that top-p keeps shows it by its sum: some 100 tokens mostly do, and
    // if not then those that three in four segments have one of, which fit the list as well.
#pragma unroll 1
    for (const int32_t num_tokens : {kFewTokens / 3, min(num_segments * 3 / 4, kMost)}) {
      const uint32_t likely = selector.FloorOfTop(num_tokens, KeyOf(params.summary.max));
      if (likely <= floor) break;
      selector.Prune(likely);
      const int32_t count = ListFrom(LeastRankOf(likely), selector);
      if (count > kListSize) break;
      uint64_t sum = 0;
      selector.FindInList(count, weight_of, [&](uint64_t listed) { return sum = listed; });
      if (sum >= target) return count;
    }
    selector.Prune(floor);
  }
  return ListFrom(LeastRankOf(floor), selector);
}

// The least rank that top-k and top-p keep, where too many tokens reach `floor` to be sorted.
__device__ uint64_t LeastKept(const DrawParams& params, uint32_t floor, uint64_t total,
                              RowSelector& selector) {
  const SamplingRow& row = params.row;
  const uint32_t max_key = KeyOf(params.summary.max);
  uint64_t least = LeastRankOf(floor);
  if (UsesTopK(row, params.view.vocab_size)) {
    const TokenWeight one = TokenWeight::One(least);
    floor = KeyOfRank(selector.SelectRank(floor, max_key, row.top_k, params.view.vocab_size, one));
    least = LeastRankOf(floor);  // with all that equal the k-th
  }
  if (row.top_p >= 1) return least;
  const TokenWeight weight = TokenWeight::Weight(params.weight, least);
  if (total == 0) total = selector.Sum(weight);
  return selector.SelectRank(floor, max_key, MassTarget(row.top_p, total), total, weight);
}

// The same and the draw where the list holds the `count` tokens that reach the floor.
__device__ int32_t DrawFromList(const DrawParams& params, int32_t count, uint64_t total,
                                RowSelector& selector) {
  const SamplingRow& row = params.row;
  selector.SortList(count);
  if (UsesTopK(row, params.view.vocab_size)) {
    const uint32_t last = KeyOfRank(Shared().list[min(row.top_k, count) - 1]);
    count = selector.CountListed(count, LeastRankOf(last));
  }
  if (row.top_p < 1) {
    const auto target_of = [&](uint64_t listed) {
      return MassTarget(row.top_p, total == 0 ? listed : total);
    };
    const auto weight_of = [&](uint64_t rank) { return params.weight.OfRank(rank); };
    count = selector.FindInList(count, weight_of, target_of).index + 1;
  }
  if (row.min_p > 0) {
    count = selector.CountListed(count, LeastRankOf(FloorOfMinP(row.min_p, params.weight)));
  }
  // A draw goes by id: the ids' complements first, then the keys.
  __syncthreads();
#pragma unroll 1
  for (int32_t i = threadIdx.x; i < count; i += kSampleThreads) {
    const uint64_t rank = Shared().list[i];
    Shared().list[i] = (rank & kMaxSampledId) << 32 | KeyOfRank(rank);
  }
  selector.SortList(count);
  const Found found = selector.FindInList(
      count,
      [&](uint64_t item) {
        return __float2ull_rn(params.weight(LogitOf(static_cast<uint32_t>(item))));
      },
      [&](uint64_t kept) { return DrawTarget(Shared().uniform, kept); });
  return kMaxSampledId - static_cast<int32_t>(Shared().list[found.index] >> 32);
}

// The sum of the kept, which are the first of the ranking, from what each says of itself: its place
// and the sum up to it.
__device__ uint64_t SumOfKept(bool is_kept, int32_t place, uint64_t up_to) {
  const int32_t num_kept = __syncthreads_count(is_kept ? 1 : 0);
  if (is_kept && place == num_kept - 1) Shared().found_before = up_to;
  __syncthreads();
  return Shared().found_before;
}

// The same as DrawFromList where the tokens are so few that each is compared with all: no sort, no
// scan, few barriers. A token has a group of lanes, whose first speaks for it.
__device__ int32_t DrawFromFew(const DrawParams& params, int32_t count, uint64_t total) {
  const SamplingRow& row = params.row;
  const uint64_t* list = Shared().list;
  uint64_t* weights = Shared().weights;
  const auto thread = static_cast<int32_t>(threadIdx.x);
  if (thread < count) {
    weights[thread] = params.weight.OfRank(list[thread]);
  }
  __syncthreads();
  int group = 1;
  while (group < 32 && 2 * group * count <= kSampleThreads) group *= 2;
  const int32_t token = thread / group;
  const int32_t part = thread % group;
  const uint64_t rank = token < count ? list[token] : 0;
  const uint64_t weight = token < count ? weights[token] : 0;
  int32_t place = 0;
  uint64_t before = 0;
  for (int32_t i = part; i < count; i += group) {
    if (list[i] <= rank) continue;
    ++place;
    before += weights[i];
  }
  for (int step = group / 2; step > 0; step /= 2) {
    place += __shfl_xor_sync(0xffffffff, place, step);
    before += __shfl_xor_sync(0xffffffff, before, step);
  }

  const bool speaks = token < count && part == 0;
  bool is_kept = speaks;
  if (UsesTopK(row, params.view.vocab_size)) {
    if (speaks && place == min(row.top_k, count) - 1) Shared().found_before = KeyOfRank(rank);
    __syncthreads();
    is_kept = is_kept && KeyOfRank(rank) >= Shared().found_before;
  }
  if (row.top_p < 1) {
    if (total == 0) total = SumOfKept(is_kept, place, before + weight);
    is_kept = is_kept && before < MassTarget(row.top_p, total);
  }
  if (row.min_p > 0) {
    is_kept = is_kept && KeyOfRank(rank) >= FloorOfMinP(row.min_p, params.weight);
  }
  const uint64_t kept = SumOfKept(is_kept, place, before + weight);
  if (speaks && !is_kept) weights[token] = 0;
  __syncthreads();

  const uint64_t target = DrawTarget(Shared().uniform, kept);
  uint64_t below = 0;  // of lower ids
  for (int32_t i = part; i < count; i += group) {
    if (IdOfRank(list[i]) < IdOfRank(rank)) below += weights[i];
  }
  for (int step = group / 2; step > 0; step /= 2) {
    below += __shfl_xor_sync(0xffffffff, below, step);
  }
  if (is_kept && below < target && below + weight >= target) Shared().found = IdOfRank(rank);
  __syncthreads();
  return Shared().found;
}

__device__ int32_t Draw(const LogitView& view, const SamplingRow& row, const RowSummary& summary) {
  if (summary.max == -INFINITY) return 0;
  const LogitWeight weight = {summary.max, WeightScale(row.temperature)};
  const DrawParams params = {view, row, summary, weight};
  // By one warp, while the others begin; used behind a barrier.
  if (threadIdx.x == kSampleThreads - 1) Shared().uniform = UniformAt(row.seed, row.position);
  RowSelector selector(view);
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
  uint64_t total = 0;  // of all tokens, where top-p is not of what top-k keeps
  uint32_t floor;
  int32_t count;
  if (uses_top_k) {
    // Tokens at -infinity, such as those outside a mask, may be a great many and are not drawn.
    floor = max(selector.FloorOfTop(row.top_k, KeyOf(summary.max)), KeyOf(-FLT_MAX));
    selector.Prune(floor);
    count = ListFrom(LeastRankOf(floor), selector);
  } else {
    total = TotalWeight(summary, weight);
    floor = FloorOfMass(row.top_p, total, weight, view.vocab_size);
    count = ListNucleus(params, floor, total, selector);
  }
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
__device__ void ListTop(uint32_t max_key, int32_t num, int32_t vocab_size, RowSelector& selector) {
  const uint32_t floor = selector.FloorOfTop(num, max_key);
  selector.Prune(floor);
  int32_t count = ListFrom(LeastRankOf(floor), selector);
  if (count > kListSize) {
    const TokenWeight one = TokenWeight::One(LeastRankOf(floor));
    count = ListFrom(selector.SelectRank(floor, max_key, num, vocab_size, one), selector);
  }
  selector.SortList(count);
}

__device__ void ReportLogprobs(const LogitView& raw, const SampleArgs& args, int64_t index,
                               int32_t id, const RowSummary& summary) {
  const LogitWeight weight = {summary.max, kLog2E};
  const double total = static_cast<double>(TotalWeight(summary, weight)) / kWeightOne;
  const LogProbs logprobs = {summary.max, log(total)};
  RowSelector selector(raw);
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
  ListTop(KeyOf(summary.max), num_top, raw.vocab_size, selector);
  const auto i = static_cast<int32_t>(threadIdx.x);
  if (i >= num_top) return;
  const uint64_t top = Shared().list[i];
  args.top_ids[index * kMaxLogprobs + i] = IdOfRank(top);
  args.top_logprobs[index * kMaxLogprobs + i] = logprobs.Of(LogitOf(KeyOfRank(top)));
}

// Grid: one CTA per row.
// Bytes: the slices' summaries, and of the logits the segments that can matter: some 30 KB of a row
// for top-k 50; all of them three times where top-p keeps most of a flat distribution.
// Accumulation: 64-bit integers, and 32-bit ones in bins.
// Limit: latency of some ten short passes; instructions in the latter case.
__global__ void __launch_bounds__(kSampleThreads, 2)
    Sample(const __grid_constant__ SampleArgs args, const float* logits, int64_t row_stride,
           int32_t vocab_size, const SliceSummary* summaries) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int64_t index = blockIdx.x;
  const int32_t num_slices = CeilDiv(vocab_size, kSlice);
  const SliceSummary* slices = summaries + 2 * index * num_slices;
  // Both under way at once; the summary says nothing for rows that do not sample.
  SamplingRow loaded_row;
  if (threadIdx.x == 0) loaded_row = args.rows[index];
  const RowSummary summary = SummariseRow(slices, num_slices);
  if (threadIdx.x == 0) Shared().row = loaded_row;
  __syncthreads();
  const SamplingRow& row = Shared().row;
  const bool is_scored = row.target >= 0;
  if (row.target >= vocab_size) __trap();
  if (!is_scored && row.row < 0) {
    if (threadIdx.x == 0) args.sampled_ids[index] = -1;
    return;
  }
  const LogitView raw = {.logits = logits + index * row_stride,
                         .vocab_size = vocab_size,
                         .row = &row,
                         .counts = nullptr,
                         .bias = nullptr,
                         .biased_ids = nullptr,
                         .first_biased_id = 0,
                         .mask = nullptr};
  const RowSummary raw_summary =
      row.num_logprobs >= 0 ? SummariseRow(slices + num_slices, num_slices) : summary;
  if ((is_scored ? raw_summary : summary).IsBroken()) {
    if (threadIdx.x != 0) return;
    args.sampled_ids[index] = kBrokenLogitsId;
    if (!is_scored) args.row_last_token[row.row] = 0;
    return;
  }
  int32_t id = is_scored ? row.target : summary.max_id;
  if (!is_scored && row.mask >= 0 && summary.max == -INFINITY) {
    id = ArgMaxOfMask(MaskOf(row, args, vocab_size), raw);
  } else if (!is_scored && row.temperature > 0) {
    uint32_t* biased_ids = BiasedIds(CeilDiv(vocab_size, kSegment));
    id = Draw(EditedView(raw, args, 0, vocab_size, biased_ids), row, summary);
  }
  if (row.num_logprobs >= 0) {
    ReportLogprobs(raw, args, index, id, raw_summary);
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

static_assert(kMaxVocabSize / kSlice <= kListSize);
constexpr size_t kMaxSharedBytes = 227 * 1024;  // of a CTA on sm_90
static_assert(DynamicSharedBytes(kMaxVocabSize / kSegment) <= kMaxSharedBytes);

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
  CHECK_LE(args.logits.dim(1), kMaxVocabSize);
  const int64_t row_bytes = 2 * CeilDiv(vocab_size, kSlice) * int64_t{sizeof(SliceSummary)};
  const int64_t rows_at_once = kSampleWorkspaceBytes / row_bytes;
  auto* summaries = static_cast<SliceSummary*>(workspace);
  const size_t shared_bytes = DynamicSharedBytes(CeilDiv(vocab_size, kSegment));
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
