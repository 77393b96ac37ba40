// Which rows and keys an item of work has: the arithmetic between packed rows, query tokens and
// visible keys. Device code only.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/tiles/tiled_attention.h"

namespace quire::cuda {

// One item for one KV head.
struct TileItem {
  int32_t kv_head;
  int32_t group_size;
  int32_t first_row;    // packed row of the sequence: query * group_size + head within the group
  int32_t num_rows;     // of this tile
  int32_t first_token;  // of the sequence, in q
  int32_t query_len;
  int32_t seq_len;
  bool causal;
  int32_t first_page;  // in kv_indices
  int32_t key_begin;   // keys that some row sees, within the split
  int32_t key_end;
  // The keys [all_begin, all_end) are seen by every row.
  int32_t all_begin;
  int32_t all_end;
  int32_t partial;        // where the partial result goes; -1: this is the whole result
  int32_t first_partial;  // -1: left for a kernel of its own to merge
  int32_t num_splits;

  __device__ int32_t QueryOf(int32_t row) const { return (first_row + row) / group_size; }
  __device__ int32_t HeadOf(int32_t row) const {
    return kv_head * group_size + (first_row + row) % group_size;
  }
  __device__ int64_t TokenOf(int32_t row) const { return first_token + QueryOf(row); }
  // Visible keys of a query: [AttentionVariant::KeyBegin(KeyEnd), KeyEnd).
  __device__ int32_t KeyEnd(int32_t query) const {
    return AttentionVariant::KeyEnd(causal, seq_len, query_len, query);
  }
};

__device__ inline TileItem MakeItem(const TiledParams& p, const WorkItem& work, int32_t kv_head) {
  TileItem item;
  item.kv_head = kv_head;
  item.group_size = p.num_q_heads / p.num_kv_heads;
  item.first_token = work.first_token;
  item.query_len = work.query_len;
  item.seq_len = work.seq_len;
  item.causal = p.variant.causal;
  item.first_page = work.first_page;
  item.first_row = work.tile * p.work.tile_rows;
  item.num_rows = min(p.work.tile_rows, item.query_len * item.group_size - item.first_row);
  item.partial = work.partial;
  item.first_partial = work.first_partial;
  item.num_splits = work.num_splits;

  const int32_t first_query = item.QueryOf(0);
  const int32_t last_query = item.QueryOf(item.num_rows - 1);
  item.all_begin = p.variant.KeyBegin(item.KeyEnd(last_query));
  item.all_end = item.KeyEnd(first_query);
  item.key_begin = p.variant.KeyBegin(item.KeyEnd(first_query));
  item.key_end = max(item.KeyEnd(last_query), 0);
  if (item.partial >= 0) {
    item.key_begin = max(item.key_begin, work.first_key);
    item.key_end = min(item.key_end, work.end_key);
  }
  return item;
}

}  // namespace quire::cuda
