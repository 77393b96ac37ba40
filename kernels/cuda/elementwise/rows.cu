// Operations that move rows and entries and compute nothing: Embedding, GatherRows,
// UpdateBlockTables. An index out of range is a programmer's error and stops the device (__trap),
// like a failed CHECK: the launch after it reports an error.
#include "kernels/base/check.h"
#include "kernels/cuda/runtime/free_ops.h"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/vector.cuh"

namespace quire::cuda {

namespace {

constexpr int kCopyThreads = 128;

// All threads of the CTA copy one row.
template <typename Word>
__device__ void CopyRow(const char* from, char* to, int64_t row_bytes) {
  for (int64_t i = threadIdx.x; i < row_bytes / static_cast<int64_t>(sizeof(Word));
       i += blockDim.x) {
    reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
  }
}

// A table of rows to copy from and one to copy to; sizes in bytes.
struct RowCopy {
  const char* in;
  char* out;
  int64_t in_stride, out_stride, row_bytes, num_in_rows;
};

RowCopy MakeRowCopy(const void* in, int64_t in_stride, int64_t num_in_rows, const Tensor& out) {
  const int64_t element_bytes = DTypeBytes(out.dtype());
  CHECK_GE(element_bytes, 2);
  return {.in = static_cast<const char*>(in),
          .out = static_cast<char*>(out.data()),
          .in_stride = in_stride * element_bytes,
          .out_stride = out.row_stride() * element_bytes,
          .row_bytes = out.dim(1) * element_bytes,
          .num_in_rows = num_in_rows};
}

bool InWords(const RowCopy& copy) {
  const auto bits = reinterpret_cast<uintptr_t>(copy.in) | reinterpret_cast<uintptr_t>(copy.out) |
                    copy.in_stride | copy.out_stride | copy.row_bytes;
  return bits % sizeof(uint4) == 0;
}

// Grid: one CTA per output row.
// Bytes: each output row read and written once.
// Accumulation: none.
// Limit: latency of one dependent load (two for a row's last token), then memory bandwidth.
template <typename Word>
__global__ void __launch_bounds__(kCopyThreads)
    EmbeddingKernel(const RowCopy copy, const int32_t* input_ids, const int32_t* row_last_token) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int32_t id = input_ids[blockIdx.x];
  const int32_t token = id >= 0 ? id : row_last_token[~id];
  if (token < 0 || token >= copy.num_in_rows) __trap();
  CopyRow<Word>(copy.in + token * copy.in_stride, copy.out + blockIdx.x * copy.out_stride,
                copy.row_bytes);
}

// Grid: one CTA per output row.
// Bytes: each output row read and written once.
// Accumulation: none.
// Limit: latency of one dependent load, then memory bandwidth.
template <typename Word>
__global__ void __launch_bounds__(kCopyThreads)
    GatherRowsKernel(const RowCopy copy, const int32_t* indices) {
  ReleaseSuccessor();
  WaitForPredecessor();
  const int32_t row = indices[blockIdx.x];
  if (row < 0 || row >= copy.num_in_rows) __trap();
  CopyRow<Word>(copy.in + row * copy.in_stride, copy.out + blockIdx.x * copy.out_stride,
                copy.row_bytes);
}

// Grid: one warp; it takes 32 updates at a time, so that of two to one entry the later one wins.
// Bytes: 16 read and 4 written per update.
// Accumulation: none.
// Limit: latency, some 0.5 us per 32 updates.
__global__ void UpdateBlockTablesKernel(const UpdateBlockTablesArgs args) {
  ReleaseSuccessor();
  WaitForPredecessor();
  for (int64_t first = 0; first < args.num_updates; first += 32) {
    const int64_t i = first + threadIdx.x;
    const BlockTableUpdate update =
        i < args.num_updates ? args.updates[i] : BlockTableUpdate{.index = -1};
    const bool valid = update.index != -1;
    if (valid && (update.row < 0 || update.row >= args.max_num_seqs || update.index < 0 ||
                  update.index >= args.max_blocks_per_seq)) {
      __trap();
    }
    const long long entry =
        valid ? (update.group * args.max_num_seqs + update.row) * args.max_blocks_per_seq +
                    update.index
              : -1;
    const unsigned same = __match_any_sync(0xffffffffu, entry);
    if (valid && threadIdx.x == 31 - __clz(same)) args.block_tables[entry] = update.block;
    __syncwarp();
  }
}

}  // namespace

void LaunchEmbedding(const EmbeddingArgs& args, cudaStream_t stream) {
  if (args.out.dim(0) == 0) return;
  CHECK(!args.table->is_compressed());  // compressed ones are the CPU's
  const RowCopy copy =
      MakeRowCopy(args.table->data, args.table->in_features, args.table->out_features, args.out);
  LaunchKernel(InWords(copy) ? EmbeddingKernel<uint4> : EmbeddingKernel<uint16_t>,
               static_cast<unsigned>(args.out.dim(0)), kCopyThreads, 0, stream, copy,
               args.input_ids, args.row_last_token);
}

void LaunchGatherRows(const GatherRowsArgs& args, cudaStream_t stream) {
  if (args.out.dim(0) == 0) return;
  const RowCopy copy = MakeRowCopy(args.in.data(), args.in.row_stride(), args.in.dim(0), args.out);
  LaunchKernel(InWords(copy) ? GatherRowsKernel<uint4> : GatherRowsKernel<uint16_t>,
               static_cast<unsigned>(args.out.dim(0)), kCopyThreads, 0, stream, copy, args.indices);
}

void LaunchUpdateBlockTables(const UpdateBlockTablesArgs& args, cudaStream_t stream) {
  if (args.num_updates == 0) return;
  LaunchKernel(UpdateBlockTablesKernel, 1, 32, 0, stream, args);
}

}  // namespace quire::cuda
