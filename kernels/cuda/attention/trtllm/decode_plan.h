// The step's plan for decodes: all (sequence, unit, tile of keys) laid end to end and cut into
// equal shares, one for each CTA of the attention kernel. Plain data in device memory at fixed
// addresses, written by one kernel a step, read by every layer's attention kernel.
//
// A unit is what a CTA computes at a time: the query rows of one KV head (all of its heads, and all
// query tokens), or, where these are more than fit a tile of rows, one tile of them. A share goes
// on across units and sequences; what it has of one unit is an item. A CTA computes the items of
// its share from the last to the first: so what others need of it, the beginning of a unit that
// goes on in the next share, is there long before they have come to that unit's end.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/base/types.h"
#include "kernels/cuda/attention/tiles/variant.h"

namespace quire::cuda::trtllm {

// A tile of keys begins at a multiple of this from the start of its sequence.
inline constexpr int kTileKeys = 64;
// Block ids that come with a share.
inline constexpr int kShareBlocks = 32;

// All that a warp must know of an item, so that one read tells it.
struct __align__(16) DecodeItem {
  int32_t table_begin;  // of the sequence's blocks, in block_tables
  int32_t first_token;  // of the sequence, in q
  int32_t seq_len;
  int32_t unit;        // KV head * row tiles + row tile
  int32_t first_tile;  // of keys, counted from the start of the sequence
  int32_t num_tiles;   // at least one, which a sequence without keys has, too
  // Which shares the unit is cut into: [first_share, first_share + num_shares), in order of keys.
  int32_t first_share;
  int32_t num_shares;

  // Whether a share has the unit's last keys.
  __device__ bool EndsIn(int32_t share) const { return share == first_share + num_shares - 1; }
};

struct __align__(16) DecodeShareItems {
  DecodeItem item;  // the first
  // Items [first, last] in the order of computing; there are none if last < first. Only the first
  // may go on in the next share, only the last may have begun in an earlier one.
  int32_t first;
  int32_t last;
  int32_t unused[2];
};

// A CTA's share; what is read before anything else can be sent for, together.
struct __align__(16) DecodeShare {
  DecodeShareItems items;
  int32_t blocks[kShareBlocks];  // the first that the first item needs; -1 where it reads nothing
};

// Which blocks of the cache an item reads.
struct BlockTables {
  const BlockId* tables;
  int32_t block_shift;  // log2 of the block size

  __device__ int32_t TileBlocks() const { return kTileKeys >> block_shift; }
  // The i-th block of those that hold the item's tiles; kNoBlock where nothing is to be read:
  // beyond the item or the sequence, or before the first key that a query sees.
  __device__ int32_t BlockOf(const DecodeItem& item, int32_t i, int32_t first_key) const {
    const int32_t block = item.first_tile * TileBlocks() + i;
    const int32_t key = block << block_shift;
    const bool is_read = i < item.num_tiles * TileBlocks() && key < item.seq_len &&
                         key + (1 << block_shift) > first_key;
    const volatile BlockId* ids = tables;  // past L1, as all that is read before a kernel's wait
    return is_read ? ids[item.table_begin + block] : kNoBlock;
  }
};

struct DecodePlanParams {
  int32_t num_seqs;
  int32_t query_len;  // of every sequence
  const int32_t* cu_seqlens_q;
  const int32_t* seq_lens;
  const int32_t* seq_rows;
  const int32_t* first_blocks;  // or null
  BlockTables blocks;
  int64_t block_table_stride;
  int32_t units_per_seq;
  int32_t num_ctas;
  int32_t min_share;  // fewer CTAs work where shares would be smaller; in tiles, as unit_cost
  int32_t unit_cost;  // what a unit costs beside its tiles; less than min_share
  AttentionVariant variant;
  // [max_num_seqs * units_per_seq + num_ctas]: those of share s from s + its first unit on.
  DecodeItem* items;
  DecodeShare* shares;  // [num_ctas]
};

void LaunchDecodePlan(const DecodePlanParams& params, cudaStream_t stream);

}  // namespace quire::cuda::trtllm
