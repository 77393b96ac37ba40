#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include "kernels/cuda/attention/plan_kernels.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

namespace {

constexpr int kScanThreads = 1024;
constexpr int kFillThreads = 128;
constexpr int32_t kWholeTile = 1 << 30;  // a split longer than any sequence

// A sequence's tiles, and the splits that each of its tiles is cut into.
struct SeqShape {
  int32_t list;
  int32_t num_pages;
  int32_t num_tiles;
  int32_t query_len;
  int32_t first_key;  // the first that any query sees
  int32_t seq_len;

  // Of the last tile, the longest.
  __device__ int32_t LongestTile(const PlanParams& p) const {
    return p.variant.MostKeys(seq_len - first_key, p.lists[list].tile_rows / p.group_size);
  }
  // Of all tiles, about.
  __device__ int64_t NumKeys(const PlanParams& p) const {
    const int32_t num_unseen = p.variant.causal ? query_len / 2 : 0;
    return int64_t{num_tiles} * min(LongestTile(p), seq_len - first_key - num_unseen);
  }

  __device__ int32_t FirstSplit(int32_t split_tokens) const { return first_key / split_tokens; }
  __device__ int32_t NumSplits(int32_t split_tokens) const {
    return seq_len == 0 ? 1 : (seq_len - 1) / split_tokens + 1 - FirstSplit(split_tokens);
  }
};

__device__ SeqShape ShapeOf(const PlanParams& p, int32_t seq) {
  SeqShape shape;
  const int32_t query_len = p.cu_seqlens_q[seq + 1] - p.cu_seqlens_q[seq];
  shape.query_len = query_len;
  shape.list = seq < p.num_decode_tiled ? 0 : 1;
  shape.seq_len = p.seq_lens[seq];
  shape.num_pages = CeilDiv(shape.seq_len, p.block_size);
  shape.num_tiles = CeilDiv(query_len * p.group_size, p.lists[shape.list].tile_rows);
  shape.first_key = p.variant.KeyBegin(p.variant.KeyEnd(shape.seq_len, query_len, 0));
  return shape;
}

// Of the sequence, in block_tables.
__device__ int64_t FirstEntry(const PlanParams& p, int32_t seq) {
  const int32_t first_block = p.first_blocks == nullptr ? 0 : p.first_blocks[seq];
  return p.seq_rows[seq] * p.block_table_stride + first_block;
}

// What a list's tiles visit.
struct Load {
  int64_t num_keys = 0;  // of all tiles, for one KV head
  int32_t longest = 0;   // of a tile

  __device__ Load operator+(const Load& other) const {
    return {num_keys + other.num_keys, max(longest, other.longest)};
  }
};

__device__ Load LoadOf(const PlanParams& p, int32_t list) {
  using Reduce = cub::BlockReduce<Load, kScanThreads>;
  __shared__ typename Reduce::TempStorage storage;
  __shared__ Load total;
  Load load;
  for (int32_t seq = threadIdx.x; seq < p.num_seqs; seq += kScanThreads) {
    const SeqShape shape = ShapeOf(p, seq);
    if (shape.list == list) load = load + Load{shape.NumKeys(p), shape.LongestTile(p)};
  }
  load = Reduce(storage).Reduce(load, [](const Load& a, const Load& b) { return a + b; });
  if (threadIdx.x == 0) total = load;
  __syncthreads();
  return total;
}

// Where all queries see all keys, items take as long as they have keys, which they share with
// nobody: of the lengths of splits the one with which whole waves of CTAs take the least time.
__device__ int32_t WaveSplitTokens(const PlanParams& p, int32_t list) {
  // A split's own time, and that of writing and merging what it leaves, in tokens.
  constexpr int32_t kStepTokens = 256, kSplitCostTokens = 192;
  using Reduce = cub::BlockReduce<int64_t, kScanThreads>;
  __shared__ typename Reduce::TempStorage storage;
  __shared__ int64_t least;
  const int32_t split_tokens = (static_cast<int32_t>(threadIdx.x) + 1) * kStepTokens;
  int64_t num_items = 0;
  int32_t longest = 0;
  for (int32_t seq = 0; seq < p.num_seqs; ++seq) {
    const SeqShape shape = ShapeOf(p, seq);
    if (shape.list != list || shape.seq_len == 0) continue;
    num_items += int64_t{shape.num_tiles} * shape.NumSplits(split_tokens) * p.num_kv_heads;
    longest = max(longest, min(shape.seq_len, split_tokens));
  }
  const int64_t num_waves = CeilDiv(num_items, int64_t{p.lists[list].num_ctas});
  const int64_t cost = num_waves * (longest + kSplitCostTokens);
  // The longer one of two that take as long.
  const int64_t choice = cost * kScanThreads + (kScanThreads - 1 - static_cast<int>(threadIdx.x));
  const int64_t best =
      Reduce(storage).Reduce(choice, [](int64_t a, int64_t b) { return a < b ? a : b; });
  if (threadIdx.x == 0) least = best;
  __syncthreads();
  return (kScanThreads - static_cast<int32_t>(least % kScanThreads)) * kStepTokens;
}

__device__ int32_t WantedSplitTokens(const PlanParams& p, int32_t list) {
  if (!p.variant.causal) return WaveSplitTokens(p, list);
  const WorkList& work = p.lists[list];
  const SplitRule& rule = work.split_rule;
  const Load load = LoadOf(p, list);
  const int64_t share = load.num_keys * p.num_kv_heads / work.num_ctas;
  if (rule.only_for_balance && load.longest <= share * 5 / 8) return kWholeTile;
  int32_t tokens = rule.min_tokens;
  while (tokens < rule.max_tokens && int64_t{tokens} * rule.splits_per_cta < share) tokens *= 2;
  return tokens;
}

// Longer splits than wanted where partial results have no room.
__device__ int32_t ChooseSplitTokens(const PlanParams& p, int32_t list) {
  using Reduce = cub::BlockReduce<int32_t, kScanThreads>;
  __shared__ typename Reduce::TempStorage storage;
  __shared__ int32_t total;
  for (int32_t split_tokens = WantedSplitTokens(p, list);; split_tokens *= 2) {
    int32_t num_partials = 0;
    for (int32_t seq = threadIdx.x; seq < p.num_seqs; seq += kScanThreads) {
      const SeqShape shape = ShapeOf(p, seq);
      const int32_t num_splits = shape.NumSplits(split_tokens);
      if (shape.list == list && num_splits > 1) num_partials += shape.num_tiles * num_splits;
    }
    num_partials = Reduce(storage).Sum(num_partials);
    if (threadIdx.x == 0) total = num_partials;
    __syncthreads();
    if (total <= p.lists[list].max_partials) return split_tokens;
    __syncthreads();
  }
}

struct Totals {
  int32_t items[kNumWorkLists] = {};
  int32_t partials[kNumWorkLists] = {};
  int32_t pages = 0;
};

// Sums of the threads before this one, added to `running`, which becomes the sum of all.
__device__ int32_t ScanOnto(int32_t value, int32_t& running) {
  using Scan = cub::BlockScan<int32_t, kScanThreads>;
  __shared__ typename Scan::TempStorage storage;
  int32_t before;
  int32_t sum;
  Scan(storage).ExclusiveSum(value, before, sum);
  __syncthreads();
  before += running;
  running += sum;
  return before;
}

// One CTA: where each sequence's pages, items and partials begin.
__global__ void __launch_bounds__(kScanThreads)
    PlanSequences(const __grid_constant__ PlanParams p) {
  ReleaseSuccessor();
  WaitForPredecessor();
  int32_t split_tokens[kNumWorkLists];
#pragma unroll
  for (int list = 0; list < kNumWorkLists; ++list) split_tokens[list] = ChooseSplitTokens(p, list);

  Totals totals;
  for (int32_t first = 0; first < p.num_seqs; first += kScanThreads) {
    const int32_t seq = first + threadIdx.x;
    const bool valid = seq < p.num_seqs;
    const SeqShape shape = valid ? ShapeOf(p, seq) : SeqShape{};
    const int32_t page = ScanOnto(valid ? shape.num_pages : 0, totals.pages);
    SeqPlan plan = {};
#pragma unroll
    for (int list = 0; list < kNumWorkLists; ++list) {
      const bool mine = valid && shape.list == list;
      const int32_t num_splits = mine ? shape.NumSplits(split_tokens[list]) : 0;
      const int32_t num_items = mine ? shape.num_tiles * num_splits : 0;
      const int32_t item = ScanOnto(num_items, totals.items[list]);
      const int32_t partial = ScanOnto(num_splits > 1 ? num_items : 0, totals.partials[list]);
      if (mine) plan = {item, partial, shape.FirstSplit(split_tokens[list]), num_splits};
    }
    if (!valid) continue;
    p.seq_plans[seq] = plan;
    p.pages.kv_indptr[seq] =
        p.csr_indices == nullptr ? static_cast<int32_t>(FirstEntry(p, seq)) : page;
  }
  if (threadIdx.x != 0) return;
  if (p.csr_indices != nullptr) p.pages.kv_indptr[p.num_seqs] = totals.pages;
  for (int list = 0; list < kNumWorkLists; ++list) {
    p.lists[list].state->num_items = totals.items[list];
    p.lists[list].state->split_tokens = split_tokens[list];
  }
}

// One CTA per sequence: its pages and items.
__global__ void __launch_bounds__(kFillThreads)
    FillSequences(const __grid_constant__ PlanParams p) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const auto seq = static_cast<int32_t>(blockIdx.x);
  const SeqShape shape = ShapeOf(p, seq);
  if (p.csr_indices != nullptr) {
    const BlockId* blocks = p.block_tables + FirstEntry(p, seq);
    int32_t* indices = p.csr_indices + p.pages.kv_indptr[seq];
    for (int32_t i = threadIdx.x; i < shape.num_pages; i += kFillThreads) indices[i] = blocks[i];
  }

  const SeqPlan plan = p.seq_plans[seq];
  WorkItem* items = p.lists[shape.list].items + plan.first_item;
  const int32_t split_tokens = p.lists[shape.list].state->split_tokens;
  for (int32_t i = threadIdx.x; i < shape.num_tiles * plan.num_splits; i += kFillThreads) {
    // The last tile sees the most keys: it goes first.
    const int32_t tile = shape.num_tiles - 1 - i / plan.num_splits;
    const int32_t split = i % plan.num_splits;
    const int32_t first_partial = plan.first_partial + tile * plan.num_splits;
    const bool is_cut = plan.num_splits > 1;
    items[i] = {.first_token = p.cu_seqlens_q[seq],
                .query_len = p.cu_seqlens_q[seq + 1] - p.cu_seqlens_q[seq],
                .seq_len = shape.seq_len,
                .first_page = p.pages.kv_indptr[seq],
                .tile = tile,
                .first_key = (plan.first_split + split) * split_tokens,
                .partial = is_cut ? first_partial + split : -1,
                .first_partial = first_partial,
                .num_splits = plan.num_splits};
  }
}

}  // namespace

void LaunchPlan(const PlanParams& params, cudaStream_t stream) {
  LaunchKernel(PlanSequences, dim3(1), dim3(kScanThreads), 0, stream, params);
  LaunchKernel(FillSequences, dim3(params.num_seqs), dim3(kFillThreads), 0, stream, params);
}

}  // namespace quire::cuda
