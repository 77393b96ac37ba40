// The keys and values of a step's tokens, one token after another as a gemm leaves them, as a cache
// that every attention path reads: a block begins at any token, so that the blocks of a sequence
// follow each other from its first token on, and overlap those of the next one. Plain functions;
// any thread.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/base/tensor.h"
#include "kernels/base/types.h"
#include "kernels/op_args.h"

namespace quire::bench {

// Few of them must be sent for: whatever a cache has beside these tokens.
inline constexpr int32_t kRaggedBlockSize = 64;
// Paths read whole blocks: so many rows behind the last token's must be readable memory. What they
// hold never counts, as what a cache's block holds beyond its sequence.
inline constexpr int64_t kRaggedRoomRows = kRaggedBlockSize - 1;

// k, v: [num_tokens + at least kRaggedRoomRows, num_kv_heads, head_dim], of the same strides.
KvCacheView RaggedKv(const Tensor& k, const Tensor& v, int64_t num_tokens);

// Writes the block tables of sequences whose tokens are the rows
// [cu_seqlens[i], cu_seqlens[i + 1]): row seq_rows[i] of `tables` [max_num_seqs, stride]. Behind a
// sequence's blocks stays what was there.
void FillRaggedBlockTables(absl::Span<const int32_t> cu_seqlens, absl::Span<const int32_t> seq_rows,
                           int64_t stride, absl::Span<BlockId> tables);

}  // namespace quire::bench
