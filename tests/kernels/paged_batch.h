// PagedBatch: host and device copies of a random attention batch: sequences of given query and key
// lengths over shuffled blocks of one layer's cache, in either layout. Memory that no query may
// read is poisoned: cache slots beyond each sequence hold NaN, unused block-table entries -1.
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/attention.h"

namespace quire {

struct SeqShape {
  int32_t query_len;
  int32_t kv_len;  // 0 = padding
};

enum class KvOrder { kNhd, kHnd };

struct PagedBatch {
  AttentionGeometry geometry;
  std::vector<SeqShape> seqs;
  int32_t decode_query_len = 1;  // leading sequences with this many query tokens are decodes
  int64_t max_blocks_per_seq = 0;
  int64_t num_blocks = 0;
  KvCacheView view;  // strides; no memory
  std::vector<int32_t> cu_seqlens_q = {0};
  std::vector<int32_t> seq_lens;
  std::vector<int32_t> seq_rows;  // shuffled
  std::vector<BlockId> block_tables;
  std::vector<int32_t> first_blocks;  // empty: none
  bool causal = true;
  // SharedPrefixes of the decodes; empty: nothing is said.
  std::vector<int32_t> prefix_cu_seqlens_q, prefix_lens, prefix_rows, prefix_blocks, rest_lens;
  std::vector<float> q, k, v;  // k and v: the whole cache, as it is stored
  // Empty where the geometry has none.
  std::vector<float> k_scales, v_scales;  // [num_kv_heads]
  std::vector<float> sinks;               // [num_q_heads]

  // Pointers to the host vectors.
  AttentionBatch HostBatch() const {
    const auto is_decode = [&](const SeqShape& seq) { return seq.query_len == decode_query_len; };
    AttentionBatch batch = {};
    batch.num_seqs = static_cast<int32_t>(seqs.size());
    batch.num_tokens = cu_seqlens_q.back();
    batch.num_decodes =
        static_cast<int32_t>(std::find_if_not(seqs.begin(), seqs.end(), is_decode) - seqs.begin());
    batch.decode_query_len = decode_query_len;
    batch.cu_seqlens_q = cu_seqlens_q.data();
    batch.seq_lens = seq_lens.data();
    batch.seq_rows = seq_rows.data();
    batch.block_tables = block_tables.data();
    batch.block_table_stride = max_blocks_per_seq;
    if (!first_blocks.empty()) batch.first_blocks = first_blocks.data();
    batch.causal = causal;
    return batch;
  }
};

// No powers of two; those of an 8-bit cache are different for every head.
inline void MakeScalesAndSinks(PagedBatch& batch, uint32_t seed) {
  const AttentionGeometry& geometry = batch.geometry;
  if (IsFloat8(geometry.kv_dtype)) {
    for (int32_t head = 0; head < geometry.num_kv_heads; ++head) {
      batch.k_scales.push_back(0.7f + 0.11f * static_cast<float>(head % 5));
      batch.v_scales.push_back(1.3f - 0.13f * static_cast<float>(head % 4));
    }
  }
  if (geometry.sinks) {
    std::mt19937 rng(seed + 77);
    std::normal_distribution<float> normal(1.0f, 2.0f);
    for (int32_t head = 0; head < geometry.num_q_heads; ++head) batch.sinks.push_back(normal(rng));
  }
}

inline KvCacheView MakeView(const AttentionGeometry& geometry, KvOrder order) {
  const int64_t dim = geometry.k_head_dim;
  const int64_t block_elements = dim * geometry.num_kv_heads * geometry.block_size;
  const bool nhd = order == KvOrder::kNhd;
  const HeadsView heads = {
      .block_stride = 2 * block_elements,  // K, then V, as KvArena lays them out
      .token_stride = nhd ? dim * geometry.num_kv_heads : dim,
      .head_stride = nhd ? dim : dim * geometry.block_size,
      .head_dim = geometry.k_head_dim};
  return {.k = heads,
          .v = heads,
          .dtype = geometry.kv_dtype,
          .block_size = geometry.block_size,
          .num_kv_heads = geometry.num_kv_heads};
}

// Rows of token positions in the cache, as StoreHeads would have written them: random values
// that depend on (seed, sequence, position) only, whatever the block order.
inline void FillCache(PagedBatch& batch, uint32_t seed) {
  const KvCacheView& view = batch.view;
  std::normal_distribution<float> normal;
  for (size_t seq = 0; seq < batch.seqs.size(); ++seq) {
    std::mt19937 rng(seed + 1000 * static_cast<uint32_t>(seq));
    const BlockId* blocks =
        batch.block_tables.data() + batch.seq_rows[seq] * batch.max_blocks_per_seq;
    for (int64_t pos = 0; pos < batch.seqs[seq].kv_len; ++pos) {
      const int64_t slot = blocks[pos / view.block_size] * view.k.block_stride +
                           pos % view.block_size * view.k.token_stride;
      for (int32_t head = 0; head < view.num_kv_heads; ++head) {
        for (int32_t i = 0; i < view.k.head_dim; ++i) {
          batch.k[slot + head * view.k.head_stride + i] = normal(rng);
          batch.v[slot + head * view.k.head_stride + i] = normal(rng);
        }
      }
    }
  }
}

// `seed` fixes q, k and v; `block_seed` the order of blocks and rows.
inline PagedBatch MakePagedBatch(const AttentionGeometry& geometry, std::vector<SeqShape> seqs,
                                 KvOrder order, uint32_t seed, uint32_t block_seed) {
  PagedBatch batch;
  batch.geometry = geometry;
  batch.seqs = std::move(seqs);
  batch.view = MakeView(geometry, order);
  for (const SeqShape& seq : batch.seqs) {
    const int64_t blocks = CeilDiv(seq.kv_len, geometry.block_size);
    batch.max_blocks_per_seq = std::max(batch.max_blocks_per_seq, blocks + 1);
    batch.num_blocks += blocks;
    batch.cu_seqlens_q.push_back(batch.cu_seqlens_q.back() + seq.query_len);
    batch.seq_lens.push_back(seq.kv_len);
  }
  batch.num_blocks += 1;

  std::mt19937 rng(block_seed);
  batch.seq_rows.resize(batch.seqs.size());
  std::iota(batch.seq_rows.begin(), batch.seq_rows.end(), 0);
  std::shuffle(batch.seq_rows.begin(), batch.seq_rows.end(), rng);
  std::vector<BlockId> blocks(batch.num_blocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  std::shuffle(blocks.begin(), blocks.end(), rng);
  batch.block_tables.assign(batch.seqs.size() * batch.max_blocks_per_seq, kNoBlock);
  auto next = blocks.begin();
  for (size_t i = 0; i < batch.seqs.size(); ++i) {
    const int64_t count = CeilDiv(batch.seqs[i].kv_len, geometry.block_size);
    std::copy_n(next, count,
                batch.block_tables.begin() + batch.seq_rows[i] * batch.max_blocks_per_seq);
    next += count;
  }

  const float nan = std::numeric_limits<float>::quiet_NaN();
  batch.k.assign(batch.num_blocks * batch.view.k.block_stride, nan);
  batch.v = batch.k;
  FillCache(batch, seed);
  MakeScalesAndSinks(batch, seed);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < batch.seqs.size(); ++i) {
    // The query of a position is its own, however many tokens come in this step.
    for (int32_t j = batch.seqs[i].query_len; j > 0; --j) {
      const int32_t pos = batch.seqs[i].kv_len - j;
      std::mt19937 query_rng(seed * 7919 + 104729 * static_cast<uint32_t>(i) + pos);
      for (int32_t e = 0; e < geometry.num_q_heads * geometry.k_head_dim; ++e) {
        batch.q.push_back(normal(query_rng));
      }
    }
  }
  return batch;
}

}  // namespace quire
