#include "kernels/cpu/embedding.h"

#include "kernels/base/check.h"
#include "kernels/cpu/packing.h"

namespace quire::cpu {

void Embedding(const EmbeddingArgs& args, ThreadPool& pool) {
  constexpr int64_t kTokensPerChunk = 16;  // some 50 us of cache misses
  const int64_t row_bytes = args.out.row_stride() * DTypeBytes(args.out.dtype());
  pool.ParallelFor(args.out.dim(0), kTokensPerChunk, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) {
      const int32_t id = args.input_ids[i];
      const int32_t token = id >= 0 ? id : args.row_last_token[~id];
      CHECK(token >= 0 && token < args.table->out_features)
          << "token " << token << " is outside the vocabulary";
      UnpackRow(*args.table, token, static_cast<char*>(args.out.data()) + i * row_bytes);
    }
  });
}

}  // namespace quire::cpu
