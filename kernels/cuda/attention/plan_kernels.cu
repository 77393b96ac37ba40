#include <cub/block/block_scan.cuh>

#include "kernels/cuda/attention/plan_kernels.h"
#include "kernels/cuda/attention/plan_splits.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda {

namespace {

constexpr int kFillThreads = 128;

// The first entry of the sequence in block_tables.
__device__ int64_t FirstEntry(const PlanParams& p, int32_t seq) {
  const int32_t first_block = p.first_blocks == nullptr ? 0 : p.first_blocks[seq];
  return p.seq_rows[seq] * p.block_table_stride + first_block;
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
      const int32_t num_partials = p.LeavesParts(num_splits) ? num_items : 0;
      const int32_t partial = ScanOnto(num_partials, totals.partials[list]);
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
    const bool leaves_parts = p.LeavesParts(plan.num_splits);
    items[i] = {.first_token = p.cu_seqlens_q[seq],
                .query_len = p.cu_seqlens_q[seq + 1] - p.cu_seqlens_q[seq],
                .seq_len = shape.seq_len,
                .first_page = p.pages.kv_indptr[seq],
                .tile = tile,
                .first_key = (plan.first_split + split) * split_tokens,
                .end_key = split + 1 < plan.num_splits
                               ? (plan.first_split + split + 1) * split_tokens
                               : shape.seq_len,
                .partial = leaves_parts ? first_partial + split : -1,
                .first_partial = p.merges ? -1 : first_partial,
                .num_splits = plan.num_splits};
  }
}

}  // namespace

void LaunchPlan(const PlanParams& params, cudaStream_t stream) {
  LaunchKernel(PlanSequences, dim3(1), dim3(kScanThreads), 0, stream, params);
  LaunchKernel(FillSequences, dim3(params.num_seqs), dim3(kFillThreads), 0, stream, params);
}

}  // namespace quire::cuda
