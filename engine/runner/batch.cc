#include "engine/runner/batch.h"

#include "kernels/base/types.h"

namespace quire {

BatchShape MaxShape(const BatchLimits& limits) {
  return {.num_seqs = limits.max_num_seqs,
          .num_tokens = limits.max_num_tokens,
          .num_groups = limits.num_groups,
          .num_logit_rows = limits.max_logit_rows(),
          .num_bias = limits.max_num_seqs * limits.max_bias_per_seq,
          .num_block_updates = limits.max_block_updates};
}

BatchShape DecodeShape(const BatchLimits& limits, int64_t num_seqs) {
  return {.num_seqs = num_seqs,
          .num_tokens = num_seqs,
          .num_groups = limits.num_groups,
          .num_logit_rows = num_seqs,
          .num_bias = 0,
          .num_block_updates = num_seqs * limits.num_groups};
}

BatchMetadata FullDecodeBatch(const BatchLimits& limits, int32_t num_seqs) {
  BatchMetadata batch;
  batch.shape = DecodeShape(limits, num_seqs);
  batch.num_seqs = num_seqs;
  batch.num_tokens = num_seqs;
  batch.num_decodes = num_seqs;
  batch.num_decode_tokens = num_seqs;
  batch.max_seqlen_q = 1;
  batch.max_seqlen_k = static_cast<int32_t>(limits.max_blocks_per_seq * limits.block_size);
  batch.num_sampled_rows = num_seqs;
  batch.num_logit_rows = num_seqs;
  batch.num_block_updates = batch.shape.num_block_updates;
  return batch;
}

BatchLayout::BatchLayout(const BatchShape& shape) {
  constexpr int64_t kInt = sizeof(int32_t);
  constexpr int64_t kLong = sizeof(int64_t);
  const std::array<int64_t, kNumArrays> bytes = {
      shape.num_seqs * kInt,                                             // seq_rows
      shape.num_seqs * kInt,                                             // seq_lens
      (shape.num_seqs + 1) * kInt,                                       // cu_seqlens_q
      (shape.num_seqs + 1) * kInt,                                       // cu_seqlens_k
      shape.num_tokens * kInt,                                           // input_ids
      shape.num_tokens * kLong,                                          // positions
      shape.num_groups * shape.num_tokens * kLong,                       // slot_mapping
      shape.num_logit_rows * kInt,                                       // logits_indices
      shape.num_logit_rows * static_cast<int64_t>(sizeof(SamplingRow)),  // sampling
      shape.num_block_updates * static_cast<int64_t>(sizeof(BlockTableUpdate)),
      shape.num_bias * static_cast<int64_t>(sizeof(LogitBias)),
  };
  for (int i = 0; i < kNumArrays; ++i) {
    offsets_[i] = size_bytes_;
    size_bytes_ += RoundUp<int64_t>(bytes[i], 64);
  }
}

BatchArrays BatchLayout::At(void* base) const {
  int next = 0;
  auto take = [&]() { return static_cast<char*>(base) + offsets_[next++]; };
  BatchArrays arrays;
  arrays.seq_rows = reinterpret_cast<int32_t*>(take());
  arrays.seq_lens = reinterpret_cast<int32_t*>(take());
  arrays.cu_seqlens_q = reinterpret_cast<int32_t*>(take());
  arrays.cu_seqlens_k = reinterpret_cast<int32_t*>(take());
  arrays.input_ids = reinterpret_cast<int32_t*>(take());
  arrays.positions = reinterpret_cast<int64_t*>(take());
  arrays.slot_mapping = reinterpret_cast<int64_t*>(take());
  arrays.logits_indices = reinterpret_cast<int32_t*>(take());
  arrays.sampling = reinterpret_cast<SamplingRow*>(take());
  arrays.block_updates = reinterpret_cast<BlockTableUpdate*>(take());
  arrays.bias = reinterpret_cast<LogitBias*>(take());
  return arrays;
}

}  // namespace quire
