// Batches whose sequences do not each have all of their keys to themselves: keys that begin at a
// later block, and prefixes in common.
#pragma once

#include <algorithm>
#include <vector>

#include "tests/kernels/paged_batch.h"

namespace quire {

// Keys of sequence i begin first_blocks[i] blocks later.
inline void SkipBlocks(PagedBatch& batch, const std::vector<int32_t>& first_blocks) {
  batch.first_blocks = first_blocks;
  for (size_t i = 0; i < first_blocks.size(); ++i) {
    batch.seq_lens[i] -= first_blocks[i] * batch.geometry.block_size;
  }
}

// Decodes of one token: the first `num_seqs` have the blocks of the first of them as their first
// `num_blocks`, the next likewise, group by group; the rest shares nothing.
struct PrefixShape {
  int32_t num_seqs;
  int32_t num_blocks;
};
inline void SharePrefixes(PagedBatch& batch, const std::vector<PrefixShape>& groups) {
  const int64_t stride = batch.max_blocks_per_seq;
  const auto row_of = [&](int32_t seq) {
    return batch.block_tables.begin() + batch.seq_rows[seq] * stride;
  };
  batch.prefix_cu_seqlens_q = {0};
  batch.rest_lens = batch.seq_lens;
  batch.prefix_blocks.assign(batch.seq_lens.size(), 0);
  for (const PrefixShape& group : groups) {
    const int32_t first = batch.prefix_cu_seqlens_q.back();
    for (int32_t seq = first; seq < first + group.num_seqs; ++seq) {
      std::copy_n(row_of(first), group.num_blocks, row_of(seq));
      batch.prefix_blocks[seq] = group.num_blocks;
      batch.rest_lens[seq] -= group.num_blocks * batch.geometry.block_size;
    }
    batch.prefix_lens.push_back(group.num_blocks * batch.geometry.block_size);
    batch.prefix_rows.push_back(batch.seq_rows[first]);
    batch.prefix_cu_seqlens_q.push_back(first + group.num_seqs);
  }
  // All others, and a group of none.
  batch.prefix_lens.resize(groups.size() + 2, 0);
  batch.prefix_rows.resize(groups.size() + 2, 0);
  batch.prefix_cu_seqlens_q.resize(groups.size() + 3, batch.HostBatch().num_decodes);
}

}  // namespace quire
