#include <cub/block/block_scan.cuh>

#include "kernels/cuda/attention/trtllm/decode_plan.h"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda::trtllm {

namespace {

constexpr int kThreads = 1024;

struct SeqTiles {
  int32_t first;
  int32_t count;
};

__device__ SeqTiles TilesOf(const DecodePlanParams& p, int32_t seq_len) {
  const int32_t first = p.variant.KeyBegin(seq_len - (p.query_len - 1)) / kTileKeys;
  return {first, max(CeilDiv(seq_len, kTileKeys) - first, 1)};
}

// Total tiles of a unit's KV head in all sequences; tile_starts.
__device__ int32_t ScanTiles(const DecodePlanParams& p) {
  using Scan = cub::BlockScan<int32_t, kThreads>;
  __shared__ typename Scan::TempStorage storage;
  int32_t total = 0;
  for (int32_t first = 0; first < p.num_seqs; first += kThreads) {
    const int32_t seq = first + static_cast<int32_t>(threadIdx.x);
    const int32_t count = seq < p.num_seqs ? TilesOf(p, p.seq_lens[seq]).count : 0;
    int32_t before, sum;
    Scan(storage).ExclusiveSum(count, before, sum);
    __syncthreads();
    if (seq < p.num_seqs) p.tile_starts[seq] = total + before;
    total += sum;
  }
  return total;
}

// Share c of `count` is the tiles [Begin(c), Begin(c + 1)): they differ by one tile at most.
struct Shares {
  int64_t num_tiles;
  int64_t count;

  __device__ int64_t Begin(int64_t cta) const { return cta * num_tiles / count; }
  __device__ int32_t CtaOf(int64_t tile) const {
    return static_cast<int32_t>(((tile + 1) * count - 1) / num_tiles);
  }
};

// The items of one unit, and the ends of shares that lie in it.
__device__ void PlanUnit(const DecodePlanParams& p, const Shares& shares, int32_t unit) {
  const int32_t seq = unit / p.units_per_seq;
  const int32_t in_seq = unit % p.units_per_seq;
  const int32_t seq_len = p.seq_lens[seq];
  const SeqTiles tiles = TilesOf(p, seq_len);
  const int64_t begin =
      int64_t{p.tile_starts[seq]} * p.units_per_seq + int64_t{in_seq} * tiles.count;
  const int64_t end = begin + tiles.count;
  DecodeItem item = {.table_row = p.seq_rows[seq],
                     .first_token = p.cu_seqlens_q[seq],
                     .seq_len = seq_len,
                     .unit = in_seq,
                     .first_tile = 0,
                     .num_tiles = 0,
                     .first_cta = shares.CtaOf(begin),
                     .num_ctas = 0};
  item.num_ctas = shares.CtaOf(end - 1) - item.first_cta + 1;
  for (int32_t cta = item.first_cta; cta < item.first_cta + item.num_ctas; ++cta) {
    const int64_t share_begin = shares.Begin(cta);
    const int64_t share_end = shares.Begin(cta + 1);
    const int64_t from = max(begin, share_begin);
    item.first_tile = tiles.first + static_cast<int32_t>(from - begin);
    item.num_tiles = static_cast<int32_t>(min(end, share_end) - from);
    p.items[unit + cta] = item;
    if (begin <= share_begin) p.shares[cta].first = unit + cta;
    if (end >= share_end) p.shares[cta].last = unit + cta;
  }
}

// One CTA.
__global__ void __launch_bounds__(kThreads) PlanDecode(const __grid_constant__ DecodePlanParams p) {
  ReleaseSuccessor();
  WaitForPredecessor();
  Shares shares;
  shares.num_tiles = int64_t{ScanTiles(p)} * p.units_per_seq;
  shares.count = min(int64_t{p.num_ctas}, max(shares.num_tiles / p.min_share, int64_t{1}));
  const auto thread = static_cast<int32_t>(threadIdx.x);
  for (int32_t cta = thread; cta < p.num_ctas; cta += kThreads) {
    if (cta >= shares.count) p.shares[cta] = {0, -1};
  }
  __syncthreads();
  for (int32_t unit = thread; unit < p.num_seqs * p.units_per_seq; unit += kThreads) {
    PlanUnit(p, shares, unit);
  }
}

}  // namespace

void LaunchDecodePlan(const DecodePlanParams& params, cudaStream_t stream) {
  LaunchKernel(PlanDecode, dim3(1), dim3(kThreads), 0, stream, params);
}

}  // namespace quire::cuda::trtllm
