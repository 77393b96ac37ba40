// The step's plan as the kernels see it: the page table, and two lists of work, one for each tile
// height. Plain data in device memory at fixed addresses; written by the planning kernels
// (plan_kernels.h), read by the attention kernels.
//
// A tile is `tile_rows` consecutive rows of one sequence, a row being one query token of one head
// of a KV head's group. A tile's keys are cut into splits at multiples of split_tokens from the
// start of the sequence; the last split also takes a short rest. The length of the splits follows
// from the step's lengths (plan_splits.cuh). An item is one split of one tile, for all KV heads.
#pragma once

#include <vector_types.h>

#include <cstdint>

namespace quire::cuda {

// All that a kernel must know of an item, so that one read tells it.
struct WorkItem {
  int32_t first_token;  // of the sequence, in q
  int32_t query_len;
  int32_t seq_len;
  int32_t first_page;  // in kv_indices
  int32_t tile;
  int32_t first_key;  // the split's: keys [first_key, end_key) of the sequence
  int32_t end_key;
  int32_t partial;        // where the split's result goes; -1: it is the tile's whole result
  int32_t first_partial;  // of the tile's splits; -1: a kernel of its own merges them
  int32_t num_splits;
};

// Counters of one list.
struct WorkListState {
  int32_t num_items;
  int32_t split_tokens;
  int32_t next;      // items taken beyond each CTA's first; zero between runs
  int32_t finished;  // CTAs that found no more items; zero between runs
};

struct WorkList {
  WorkListState* state;
  WorkItem* items;  // and room behind them for what each CTA may read ahead
  // What the tiles of several splits leave for their last split's CTA to merge:
  // [max_partials, num_kv_heads, partial_rows, the kernel's head_dim], not normalised. All tiles,
  // for merge_parts.h: results of 16 bits, in half of that memory.
  float* partial_out;
  // [max_partials, num_kv_heads, partial_rows]: maximum (base 2) and sum, or log-sum-exp and 1.
  float2* partial_state;
  int32_t* arrivals;  // [max_partials, num_kv_heads] splits done; zero between runs
  int32_t tile_rows;
  int32_t partial_rows;  // the most rows that a tile of this list has
  int32_t num_ctas;
  int32_t max_partials;
};

// Where a sequence's splits and its parts of the lists begin.
struct SeqPlan {
  int32_t first_item;
  int32_t first_partial;
  int32_t first_split;
  int32_t num_splits;  // of each tile
};

// The pages of sequence i begin at kv_indices[kv_indptr[i]]. In CSR form (the native path's) those
// of the next sequence follow, and kv_indptr has num_seqs + 1 entries; in padded form (the trtllm
// path's) kv_indices are the block tables themselves and kv_indptr[i] is where the row of i begins.
struct PageTable {
  int32_t* kv_indptr;         // [max_num_seqs + 1]
  const int32_t* kv_indices;  // [max_num_seqs * max_blocks_per_seq]
};

}  // namespace quire::cuda
