// Presents the keys and values of a step's tokens as a KV cache that every attention path can read.
// They lie one token after another, as a gemm leaves them. A block may begin at any token, so the
// blocks of a sequence follow each other from its first token on, and overlap the blocks of the
// next sequence. Plain functions; any thread.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "kernels/base/tensor.h"
#include "kernels/base/types.h"
#include "kernels/op_args.h"

namespace quire::bench {

// The block size here, whatever block size the real cache has. It is large so that a plan reads few
// blocks.
inline constexpr int32_t kRaggedBlockSize = 64;
// Paths read whole blocks, so this many rows behind the last token's row must be readable memory.
// Their contents never count, like the part of a cache's block beyond its sequence.
inline constexpr int64_t kRaggedRoomRows = kRaggedBlockSize - 1;

// k, v: [num_tokens + at least kRaggedRoomRows, num_kv_heads, head_dim], of the same strides.
KvCacheView RaggedKv(const Tensor& k, const Tensor& v, int64_t num_tokens);

// Writes the block tables of sequences. The tokens of sequence i are the rows [cu_seqlens[i],
// cu_seqlens[i + 1]); its block table is row seq_rows[i] of `tables` [max_num_seqs, stride].
// Entries behind a sequence's blocks do not change.
void FillRaggedBlockTables(absl::Span<const int32_t> cu_seqlens, absl::Span<const int32_t> seq_rows,
                           int64_t stride, absl::Span<BlockId> tables);

}  // namespace quire::bench
