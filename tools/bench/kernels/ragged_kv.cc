#include "tools/bench/kernels/ragged_kv.h"

#include "kernels/base/check.h"

namespace quire::bench {

KvCacheView RaggedKv(const Tensor& k, const Tensor& v, int64_t num_tokens) {
  for (const Tensor* tensor : {&k, &v}) {
    CHECK_EQ(tensor->rank(), 3);
    CHECK_GE(tensor->dim(0), num_tokens + kRaggedRoomRows);
  }
  CHECK(k.dtype() == v.dtype() && !IsFloat8(k.dtype()));  // no gemm leaves elements of 8 bits
  CHECK_EQ(k.row_stride(), v.row_stride());
  CHECK_EQ(k.dim(1), v.dim(1));
  CHECK_EQ(k.dim(2), v.dim(2));
  const auto heads = [](const Tensor& tensor) {
    return HeadsView{.data = tensor.data(),
                     .block_stride = tensor.row_stride(),
                     .token_stride = tensor.row_stride(),
                     .head_stride = tensor.dim(2),
                     .head_dim = static_cast<int32_t>(tensor.dim(2))};
  };
  return {.k = heads(k),
          .v = heads(v),
          .dtype = k.dtype(),
          .block_size = kRaggedBlockSize,
          .num_kv_heads = static_cast<int32_t>(k.dim(1))};
}

void FillRaggedBlockTables(absl::Span<const int32_t> cu_seqlens, absl::Span<const int32_t> seq_rows,
                           int64_t stride, absl::Span<BlockId> tables) {
  CHECK_EQ(cu_seqlens.size(), seq_rows.size() + 1);
  for (size_t i = 0; i < seq_rows.size(); ++i) {
    const int32_t num_tokens = cu_seqlens[i + 1] - cu_seqlens[i];
    const int64_t num_blocks = CeilDiv<int64_t>(num_tokens, kRaggedBlockSize);
    CHECK_LE(num_blocks, stride);
    const absl::Span<BlockId> row = tables.subspan(seq_rows[i] * stride, stride);
    for (int64_t block = 0; block < num_blocks; ++block) {
      row[block] = static_cast<BlockId>(cu_seqlens[i] + block * kRaggedBlockSize);
    }
  }
}

}  // namespace quire::bench
