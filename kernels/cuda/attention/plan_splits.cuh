// How long the splits of a plan's tiles are: by all threads of the one CTA that plans. Device code
// only.
#pragma once

#include <cub/block/block_reduce.cuh>

#include "kernels/cuda/attention/plan_kernels.h"

namespace quire::cuda {

inline constexpr int kScanThreads = 1024;
inline constexpr int32_t kWholeTile = 1 << 30;  // a split longer than any sequence

// A sequence's tiles, and the splits that each of its tiles is cut into.
struct SeqShape {
  int32_t list;
  int32_t num_pages;
  int32_t num_tiles;
  int32_t query_len;
  int32_t first_key;  // the first that any query sees
  int32_t seq_len;

  // The number of keys of the last tile, which has most.
  __device__ int32_t LongestTile(const PlanParams& p) const {
    return p.variant.MostKeys(seq_len - first_key, p.lists[list].tile_rows / p.group_size);
  }
  // The number of keys of all tiles together, about.
  __device__ int64_t NumKeys(const PlanParams& p) const {
    const int32_t num_unseen = p.variant.causal ? query_len / 2 : 0;
    return int64_t{num_tiles} * min(LongestTile(p), seq_len - first_key - num_unseen);
  }
  // How many tiles have at least `num_keys` keys, about. A causal tile has as many keys more than
  // the tile before it as it has queries.
  __device__ int32_t TilesWithAtLeast(const PlanParams& p, int32_t num_keys) const {
    if (num_keys > LongestTile(p)) return 0;
    if (!p.variant.causal) return num_tiles;
    const int32_t further = max(num_keys - (seq_len - first_key - query_len), 0);
    return max(num_tiles - further * p.group_size / p.lists[list].tile_rows, 1);
  }

  __device__ int32_t FirstSplit(int32_t split_tokens) const { return first_key / split_tokens; }
  // The last split of a decode takes in a rest of up to a quarter of a split, because an item of
  // its own would cost more time than its keys.
  __device__ int32_t NumSplits(int32_t split_tokens) const {
    const int32_t rest = list == 0 ? split_tokens / 4 : 0;
    return max(CeilDiv(seq_len - rest, split_tokens) - FirstSplit(split_tokens), 1);
  }
};

__device__ inline SeqShape ShapeOf(const PlanParams& p, int32_t seq) {
  SeqShape shape;
  const int32_t query_len = p.cu_seqlens_q[seq + 1] - p.cu_seqlens_q[seq];
  shape.query_len = query_len;
  shape.list = seq < p.num_decode_tiled ? 0 : 1;
  shape.seq_len = p.seq_lens[seq];
  shape.num_pages = CeilDiv(shape.seq_len, p.block_size);
  // A sequence without keys has nothing to add to results that are merged.
  const int32_t num_rows = p.merges && shape.seq_len == 0 ? 0 : query_len * p.group_size;
  shape.num_tiles = CeilDiv(num_rows, p.lists[shape.list].tile_rows);
  shape.first_key = p.variant.KeyBegin(p.variant.KeyEnd(shape.seq_len, query_len, 0));
  return shape;
}

// What a list's tiles visit.
struct Load {
  int64_t num_keys = 0;  // of all tiles, for one KV head
  int32_t longest = 0;   // of a tile

  __device__ Load operator+(const Load& other) const {
    return {num_keys + other.num_keys, max(longest, other.longest)};
  }
};

__device__ inline Load LoadOf(const PlanParams& p, int32_t list) {
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

// Near a CTA's share of all keys, so that few sequences, or one long one, fill the device; but long
// enough that what a split leaves to merge is a few percent of what it reads. Tiles that are no
// longer than that stay whole: a window's begin anywhere.
__device__ inline int32_t DecodeSplitTokens(const PlanParams& p, const Load& load) {
  constexpr int32_t kMaxTokens = 512;
  const int64_t share = load.num_keys * p.num_kv_heads / p.lists[0].num_ctas;
  int32_t tokens = kMinDecodeSplit;
  while (tokens < kMaxTokens && tokens < share) tokens *= 2;
  return load.longest <= tokens ? kWholeTile : tokens;
}

// Chooses, of several ways to cut the tiles of prompts, the one with which the device is done
// first. Each lane computes one way; the warps share out the sequences.
class PromptSplits {
 public:
  __device__ PromptSplits(const PlanParams& p, int32_t longest) : p_(p), longest_(longest) {}

  __device__ int32_t Choose() const {
    if (longest_ == 0) return kWholeTile;  // there are none
    __shared__ Counts counts[kWays];
    if (threadIdx.x < kWays) counts[threadIdx.x] = {};
    __syncthreads();
    Count(counts[threadIdx.x % kWays]);
    __syncthreads();
    const int way = static_cast<int>(threadIdx.x) % kWays;
    int64_t whole = Largest(WholeCost(counts[way], way));
    if (p_.merges) whole += LeaveCost(counts[0]);
    const int64_t cost = way == 0 ? whole : CutCost(counts[way], way);
    // The longer splits of two ways that take as long.
    const int64_t best = Least(cost * kWays + way) % kWays;
    return best == 0 ? kWholeTile : SplitTokens(static_cast<int>(best));
  }

 private:
  static constexpr int kWays = 32;
  // In keys that a tile visits in the time, from measurements of forced splits on an H200: the
  // start of an item; what a split writes; and for the last split of a tile to find that it is, and
  // to merge each of them. Where a kernel of its own merges them: the bytes of a part, written and
  // read at 3.5 TB/s.
  static constexpr int32_t kItemCost = 128, kCutCost = 64, kLastCost = 1100, kMergeCost = 145;
  static constexpr int32_t kPartCost = 2;

  struct Counts {
    int32_t num_items;  // cut in this way
    int32_t num_partials;
    int32_t num_tall;  // tiles of at least TallKeys
  };

  // Into how many splits the longest tile is cut: 1 to 16, 20, 24, 28, 32, 40, ... 256.
  static __device__ int32_t NumParts(int way) {
    return way < 16 ? way + 1 : (5 + way % 4) << (way / 4 - 2);
  }
  __device__ int32_t SplitTokens(int way) const {
    return CeilDiv(longest_, NumParts(way) * kMinPromptSplit) * kMinPromptSplit;
  }
  __device__ int32_t TallKeys(int way) const {
    return static_cast<int32_t>(CeilDiv(int64_t{longest_} * (way + 1), int64_t{kWays}));
  }

  __device__ void Count(Counts& to) const {
    const int way = static_cast<int>(threadIdx.x) % kWays;
    Counts counts = {};
    for (int32_t seq = p_.num_decode_tiled + static_cast<int32_t>(threadIdx.x) / kWays;
         seq < p_.num_seqs; seq += kScanThreads / kWays) {
      const SeqShape shape = ShapeOf(p_, seq);
      const int32_t num_splits = shape.NumSplits(SplitTokens(way));
      counts.num_items += shape.num_tiles * num_splits;
      counts.num_partials += p_.LeavesParts(num_splits) ? shape.num_tiles * num_splits : 0;
      counts.num_tall += shape.TilesWithAtLeast(p_, TallKeys(way));
    }
    atomicAdd(&to.num_items, counts.num_items);
    atomicAdd(&to.num_partials, counts.num_partials);
    atomicAdd(&to.num_tall, counts.num_tall);
  }

  __device__ int64_t Waves(int32_t num_items) const {
    return CeilDiv(int64_t{num_items} * p_.num_kv_heads, int64_t{p_.lists[1].num_ctas});
  }
  // At least, of tiles left whole: some CTA has as many of the tall ones as there are waves of
  // them. The longest go first, so the greatest of these bounds is close.
  __device__ int64_t WholeCost(const Counts& counts, int way) const {
    return Waves(counts.num_tall) * (TallKeys(way) + kItemCost);
  }
  __device__ int64_t CutCost(const Counts& counts, int way) const {
    if (counts.num_partials > p_.lists[1].max_partials) return kWholeTile;
    const int64_t visits = Waves(counts.num_items) * (SplitTokens(way) + kItemCost + kCutCost);
    return visits + (p_.merges ? LeaveCost(counts) : kLastCost + kMergeCost * NumParts(way));
  }
  __device__ int64_t LeaveCost(const Counts& counts) const {
    return int64_t{kPartCost} * counts.num_items * p_.num_kv_heads;
  }

  static __device__ int64_t Largest(int64_t value) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) {
      const int64_t other = __shfl_xor_sync(0xffffffff, value, lanes);
      value = other > value ? other : value;
    }
    return value;
  }
  static __device__ int64_t Least(int64_t value) { return -Largest(-value); }

  const PlanParams& p_;
  const int32_t longest_;
};

// The result is the same in all threads. Decodes get longer splits than wanted where there is no
// room for partial results.
__device__ inline int32_t ChooseSplitTokens(const PlanParams& p, int32_t list) {
  const Load load = LoadOf(p, list);
  if (list > 0) return PromptSplits(p, load.longest).Choose();
  using Reduce = cub::BlockReduce<int32_t, kScanThreads>;
  __shared__ typename Reduce::TempStorage storage;
  __shared__ int32_t total;
  for (int32_t split_tokens = DecodeSplitTokens(p, load);; split_tokens *= 2) {
    int32_t num_partials = 0;
    for (int32_t seq = threadIdx.x; seq < p.num_decode_tiled; seq += kScanThreads) {
      const SeqShape shape = ShapeOf(p, seq);
      const int32_t num_splits = shape.NumSplits(split_tokens);
      if (num_splits > 1) num_partials += shape.num_tiles * num_splits;
    }
    num_partials = Reduce(storage).Sum(num_partials);
    if (threadIdx.x == 0) total = num_partials;
    __syncthreads();
    if (total <= p.lists[0].max_partials) return split_tokens;
    __syncthreads();
  }
}

}  // namespace quire::cuda
