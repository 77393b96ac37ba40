#include "kernels/attention_batch.h"

#include <utility>

namespace quire {

AttentionBatch DecodesOf(AttentionBatch batch) {
  batch.num_seqs = batch.num_decodes;
  if (batch.num_decodes == 0) batch.decode_query_len = 1;  // says nothing of no decodes
  return batch;
}

AttentionBatch PrefillsOf(AttentionBatch batch) {
  const int32_t num_decodes = std::exchange(batch.num_decodes, 0);
  batch.decode_query_len = 1;
  batch.num_seqs -= num_decodes;
  batch.cu_seqlens_q += num_decodes;
  batch.seq_lens += num_decodes;
  batch.seq_rows += num_decodes;
  if (batch.first_blocks != nullptr) batch.first_blocks += num_decodes;
  batch.prefixes = {};
  return batch;
}

}  // namespace quire
