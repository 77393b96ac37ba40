#include "engine/runner/batch.h"

#include "kernels/base/types.h"

namespace quire {

namespace {

// Calls visit(array, size) for every array of a step, in the order in which they lie.
template <typename Visit>
void ForEachArray(const BatchShape& shape, BatchArrays& arrays, Visit visit) {
  visit(arrays.seq_rows, shape.num_seqs);
  visit(arrays.seq_lens, shape.num_seqs);
  visit(arrays.cu_seqlens_q, shape.num_seqs + 1);
  visit(arrays.input_ids, shape.num_tokens);
  visit(arrays.positions, shape.num_tokens);
  visit(arrays.slot_mapping, shape.num_groups * shape.num_tokens);
  visit(arrays.logits_indices, shape.num_logit_rows);
  visit(arrays.sampling, shape.num_logit_rows);
  visit(arrays.block_updates, shape.num_block_updates);
  if (shape.num_prefix_groups > 0) {
    visit(arrays.prefix_cu_seqlens_q, shape.num_prefix_groups + 1);
    visit(arrays.prefix_lens, shape.num_prefix_groups);
    visit(arrays.prefix_rows, shape.num_prefix_groups);
    visit(arrays.first_blocks, shape.num_seqs);
    visit(arrays.rest_lens, shape.num_seqs);
  }
  visit(arrays.states, shape.num_states);
  visit(arrays.snapshots, shape.num_snapshots);
  visit(arrays.bias, shape.num_bias);
}

template <typename T>
constexpr int64_t PaddedBytes(int64_t size) {
  constexpr int64_t kAlignment = 64;
  return RoundUp(size * static_cast<int64_t>(sizeof(T)), kAlignment);
}

}  // namespace

BatchShape MaxShape(const BatchLimits& limits) {
  const int64_t grid = limits.snapshot_grid;
  return {
      .num_seqs = limits.max_num_seqs,
      .num_tokens = limits.max_num_batched_tokens,
      .num_groups = limits.num_groups,
      .num_logit_rows = limits.max_logit_rows(),
      .num_bias = limits.max_num_seqs * limits.max_bias_per_seq,
      .num_block_updates = limits.max_block_updates,
      .num_prefix_groups = limits.min_prefix_tokens > 0 ? kNumPrefixGroups : 0,
      .num_states = grid > 0 ? limits.max_num_seqs : 0,
      .num_snapshots = grid > 0 ? limits.max_num_seqs + limits.max_num_batched_tokens / grid : 0};
}

BatchShape UniformShape(const BatchLimits& limits, UniformSize size) {
  const int64_t blocks_per_seq = CeilDiv<int64_t>(size.query_len, limits.block_size);
  const int64_t grid = limits.snapshot_grid;
  return {.num_seqs = size.num_seqs,
          .num_tokens = int64_t{size.num_seqs} * size.query_len,
          .num_groups = limits.num_groups,
          .num_logit_rows = size.num_seqs,
          .num_bias = 0,
          .num_block_updates = size.num_seqs * limits.num_groups * blocks_per_seq,
          .num_prefix_groups = size.shares_prefixes ? kNumPrefixGroups : 0,
          .num_states = grid > 0 ? size.num_seqs : 0,
          .num_snapshots = grid > 0 ? size.num_seqs * CeilDiv<int64_t>(size.query_len, grid) : 0};
}

BatchMetadata FullUniformBatch(const BatchLimits& limits, UniformSize size) {
  BatchMetadata batch;
  batch.shape = UniformShape(limits, size);
  batch.num_seqs = size.num_seqs;
  batch.num_tokens = size.num_seqs * size.query_len;
  batch.num_decodes = size.query_len == 1 ? size.num_seqs : 0;
  batch.num_sampled_rows = size.num_seqs;
  batch.num_logit_rows = size.num_seqs;
  batch.num_block_updates = batch.shape.num_block_updates;
  return batch;
}

BatchArrays BatchLayout::At(void* base) const {
  BatchArrays arrays = {};
  char* next = static_cast<char*>(base);
  ForEachArray(shape_, arrays, [&]<typename T>(T*& array, int64_t size) {
    array = reinterpret_cast<T*>(next);
    next += PaddedBytes<T>(size);
  });
  return arrays;
}

int64_t BatchLayout::size_bytes() const {
  BatchArrays arrays = {};
  int64_t bytes = 0;
  ForEachArray(shape_, arrays,
               [&]<typename T>(T*&, int64_t size) { bytes += PaddedBytes<T>(size); });
  return bytes;
}

}  // namespace quire
