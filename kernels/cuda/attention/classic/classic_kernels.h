// The kernels of PagedAttention as vLLM first had it (Kwon et al., SOSP 2023): a CTA for one query
// head and one partition of one sequence's keys, without tensor cores, and a second kernel that
// combines the partitions. K is stored so that a thread group's 16-byte reads of neighbouring
// tokens lie side by side, V so that a thread reads one column of several tokens.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/op_args.h"

namespace quire::cuda::classic {

inline constexpr int kBlockTokens = 16;
inline constexpr int kPartitionTokens = 512;

// A cache of its own, whatever the deployment's looks like; x is as many elements as 16 bytes hold.
struct Cache {
  void* k;          // [blocks, num_kv_heads, head_dim / x, kBlockTokens, x]
  void* v;          // [blocks, num_kv_heads, head_dim, kBlockTokens]
  int32_t* tables;  // [max_num_seqs, max_blocks]
  int32_t max_blocks;
};

struct ConvertParams {
  KvCacheView from;
  Cache to;
  int32_t num_seqs;
  const int32_t* seq_lens;
  const int32_t* seq_rows;
  const int32_t* block_tables;
  int64_t block_table_stride;
};

struct DecodeParams {
  const void* q;  // [num_tokens, num_q_heads, head_dim]
  void* out;
  float* lse;  // [num_tokens, num_q_heads], base 2, or null
  int64_t q_row_stride;
  int64_t out_row_stride;
  Cache cache;
  int32_t num_seqs;
  const int32_t* cu_seqlens_q;
  const int32_t* seq_lens;
  int32_t num_q_heads;
  int32_t num_kv_heads;
  int32_t head_dim;  // 64, 128 or 256
  float scale;
  DType dtype;  // kBF16 or kF16
  int32_t max_partitions;
  float* partial_out;     // [num_seqs, num_q_heads, max_partitions, head_dim], not normalised
  float2* partial_state;  // [num_seqs, num_q_heads, max_partitions]: maximum (base 2) and sum
};

// Copies the pages of the batch into a cache of this layout.
void LaunchConvert(const ConvertParams& params, cudaStream_t stream);

void LaunchDecode(const DecodeParams& params, cudaStream_t stream);

}  // namespace quire::cuda::classic
