// Operations that move rows and entries and compute nothing.
#include <cstring>

#include "kernels/base/check.h"
#include "kernels/cpu/elementwise/row_ranges.h"
#include "kernels/cpu/gemm/packing.h"
#include "kernels/cpu/runtime/free_ops.h"

namespace quire::cpu {

void Embedding(const EmbeddingArgs& args, ThreadPool& pool) {
  constexpr int64_t kTokensPerRange = 16;  // some 50 us of cache misses
  const int64_t row_bytes = args.out.row_stride() * DTypeBytes(args.out.dtype());
  pool.ParallelFor(args.out.dim(0), kTokensPerRange, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int32_t id = args.input_ids[i];
      const int32_t token = id >= 0 ? id : args.row_last_token[~id];
      CHECK(token >= 0 && token < args.table->out_features)
          << "token " << token << " is outside the vocabulary";
      UnpackRow(*args.table, token, static_cast<char*>(args.out.data()) + i * row_bytes);
    }
  });
}

void GatherRows(const GatherRowsArgs& args, ThreadPool& pool) {
  const int64_t element_bytes = DTypeBytes(args.in.dtype());
  const auto* in = static_cast<const char*>(args.in.data());
  auto* out = static_cast<char*>(args.out.data());
  pool.ParallelFor(args.out.dim(0), RowsPerRange(args.out.dim(1)),
                   [&](int64_t begin, int64_t end, int) {
                     for (int64_t row = begin; row < end; ++row) {
                       CHECK(args.indices[row] >= 0 && args.indices[row] < args.in.dim(0));
                       std::memcpy(out + row * args.out.row_stride() * element_bytes,
                                   in + args.indices[row] * args.in.row_stride() * element_bytes,
                                   args.out.dim(1) * element_bytes);
                     }
                   });
}

void UpdateBlockTables(const UpdateBlockTablesArgs& args, ThreadPool&) {
  for (int64_t i = 0; i < args.num_updates; ++i) {
    const BlockTableUpdate& update = args.updates[i];
    if (update.index == -1) continue;
    CHECK(update.row >= 0 && update.row < args.max_num_seqs);
    CHECK(update.index >= 0 && update.index < args.max_blocks_per_seq);
    const int64_t row = update.group * args.max_num_seqs + update.row;
    args.block_tables[row * args.max_blocks_per_seq + update.index] = update.block;
  }
}

}  // namespace quire::cpu
