#include <cub/block/block_scan.cuh>

#include "kernels/cuda/attention/trtllm/decode_plan.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda::trtllm {

namespace {

constexpr int kThreads = 256;
constexpr int kCtas = 32;  // each lays out all tiles for itself, and plans some of the shares

struct SeqTiles {
  int32_t first;
  int32_t count;
};

__device__ int32_t FirstKey(const DecodePlanParams& p, int32_t seq_len) {
  return p.variant.KeyBegin(seq_len - (p.query_len - 1));
}

__device__ SeqTiles TilesOf(const DecodePlanParams& p, int32_t seq_len) {
  const int32_t first = FirstKey(p, seq_len) / kTileKeys;
  return {first, max(CeilDiv(seq_len, kTileKeys) - first, 1)};
}

// starts [num_seqs + 1]: what a unit costs in all sequences before, in tiles.
__device__ void ScanCosts(const DecodePlanParams& p, int32_t* starts) {
  using Scan = cub::BlockScan<int32_t, kThreads>;
  __shared__ typename Scan::TempStorage storage;
  int32_t total = 0;
  for (int32_t first = 0; first < p.num_seqs; first += kThreads) {
    const int32_t seq = first + static_cast<int32_t>(threadIdx.x);
    const int32_t cost = seq < p.num_seqs ? p.unit_cost + TilesOf(p, p.seq_lens[seq]).count : 0;
    int32_t before, sum;
    Scan(storage).ExclusiveSum(cost, before, sum);
    __syncthreads();
    if (seq < p.num_seqs) starts[seq] = total + before;
    total += sum;
  }
  if (threadIdx.x == 0) starts[p.num_seqs] = total;
}

// All units of all sequences end to end, each its cost and then its tiles. Share s has the tiles in
// [Begin(s), Begin(s + 1)): shares differ by one at most.
struct Layout {
  const int32_t* starts;  // in shared memory
  int32_t units_per_seq;
  int32_t unit_cost;
  int32_t total;
  int32_t num_shares;

  __device__ Layout(const DecodePlanParams& p, const int32_t* seq_starts)
      : starts(seq_starts),
        units_per_seq(p.units_per_seq),
        unit_cost(p.unit_cost),
        total(seq_starts[p.num_seqs] * p.units_per_seq),
        num_shares(min(p.num_ctas, max(total / p.min_share, 1))) {}

  __device__ int32_t Begin(int32_t share) const {
    return static_cast<int32_t>(int64_t{share} * total / num_shares);
  }
  __device__ int32_t ShareOf(int32_t at) const {
    return static_cast<int32_t>(((int64_t{at} + 1) * num_shares - 1) / total);
  }
  __device__ int32_t UnitBegin(int32_t unit) const {
    const int32_t seq = unit / units_per_seq;
    return starts[seq] * units_per_seq + unit % units_per_seq * (starts[seq + 1] - starts[seq]);
  }
  __device__ int32_t UnitAt(int32_t at, int32_t num_seqs) const {
    int32_t low = 0;
    int32_t high = num_seqs;
    while (high - low > 1) {
      const int32_t middle = (low + high) / 2;
      (starts[middle] * units_per_seq <= at ? low : high) = middle;
    }
    const int32_t in_seq = at - starts[low] * units_per_seq;
    return low * units_per_seq + in_seq / (starts[low + 1] - starts[low]);
  }
};

// The share's part of the unit.
__device__ DecodeItem MakeItem(const DecodePlanParams& p, const Layout& layout, int32_t unit,
                               int32_t share) {
  const int32_t seq = unit / p.units_per_seq;
  DecodeItem item;
  const int32_t first_block = p.first_blocks == nullptr ? 0 : p.first_blocks[seq];
  item.table_begin = static_cast<int32_t>(p.seq_rows[seq] * p.block_table_stride) + first_block;
  item.first_token = p.cu_seqlens_q[seq];
  item.seq_len = p.seq_lens[seq];
  item.unit = unit % p.units_per_seq;
  const SeqTiles tiles = TilesOf(p, item.seq_len);
  const int32_t begin = layout.UnitBegin(unit) + p.unit_cost;
  const int32_t end = begin + tiles.count;
  const int32_t from = max(begin, layout.Begin(share));
  item.first_tile = tiles.first + from - begin;
  item.num_tiles = min(end, layout.Begin(share + 1)) - from;
  item.first_share = layout.ShareOf(begin);
  item.num_shares = layout.ShareOf(end - 1) - item.first_share + 1;
  return item;
}

// The share and its items, by one warp.
__device__ void PlanShare(const DecodePlanParams& p, const Layout& layout, int32_t share) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  DecodeShareItems& to = p.shares[share].items;
  if (share >= layout.num_shares) {
    if (lane == 0) to.first = 0;
    if (lane == 0) to.last = -1;
    return;
  }
  const int32_t end = layout.Begin(share + 1);
  const int32_t first = layout.UnitAt(layout.Begin(share), p.num_seqs);
  int32_t last = layout.UnitAt(end - 1, p.num_seqs);
  if (end <= layout.UnitBegin(last) + p.unit_cost) --last;  // it has none of the unit's tiles
  for (int32_t unit = first + lane; unit <= last; unit += 32) {
    p.items[share + first + last - unit] = MakeItem(p, layout, unit, share);
  }
  const DecodeItem item = MakeItem(p, layout, last, share);
  if (lane == 0) to.item = item;
  if (lane == 0) to.first = first + share;
  if (lane == 0) to.last = last + share;
  p.shares[share].blocks[lane] = p.blocks.BlockOf(item, lane, FirstKey(p, item.seq_len));
}

__global__ void __launch_bounds__(kThreads) PlanDecode(const __grid_constant__ DecodePlanParams p) {
  extern __shared__ int32_t starts[];
  // The successor is not released before the end: so whatever comes after this kernel finds the
  // plan, and all that came before it, without waiting for its own predecessor.
  WaitForPredecessor();
  ScanCosts(p, starts);
  __syncthreads();
  const Layout layout(p, starts);
  const auto warp = static_cast<int32_t>((blockIdx.x * kThreads + threadIdx.x) / 32);
  for (int32_t share = warp; share < p.num_ctas; share += kCtas * kThreads / 32) {
    PlanShare(p, layout, share);
  }
}

}  // namespace

void LaunchDecodePlan(const DecodePlanParams& params, cudaStream_t stream) {
  LaunchKernel(PlanDecode, dim3(kCtas), dim3(kThreads), (params.num_seqs + 1) * sizeof(int32_t),
               stream, params);
}

}  // namespace quire::cuda::trtllm
