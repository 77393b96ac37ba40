// Attention on tensor cores: what the host side knows of the compiled kernels. One per element
// type, head size and tile height, each compiled in a file of its own from tiled_attention.cuh. A
// kernel computes smaller heads, too: to it the columns that they lack are zeros.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/cuda/attention/tiles/variant.h"
#include "kernels/cuda/attention/tiles/work_list.h"

namespace quire::cuda {

struct TiledParams {
  const void* q;  // [num_tokens, num_q_heads, head_dim]
  void* out;      // likewise
  float* lse;     // [num_tokens, num_q_heads], base 2, or null
  int64_t q_row_stride;
  int64_t out_row_stride;

  const void* k;  // strides as in KvCacheView
  const void* v;
  int64_t block_stride;
  int64_t token_stride;
  int64_t head_stride;
  int32_t block_shift;  // log2 of the block size

  int32_t num_q_heads;
  int32_t num_kv_heads;
  int32_t head_dim;  // a multiple of 8, at most the kernel's
  AttentionVariant variant;
  const float* sinks;  // [num_q_heads], or null
  DType query_dtype;   // and of results, either type of 16 bits
  // Where the cache has 8-bit elements.
  DType kv_dtype;
  const float* k_scales;  // [num_kv_heads], or null for 1
  const float* v_scales;

  const int32_t* cu_seqlens_q;
  const int32_t* seq_lens;
  PageTable pages;
  WorkList work;
};

struct TiledKernel {
  void (*function)();  // takes TiledParams or HopperParams
  int32_t head_dim;    // the largest; also of partial results, whatever the heads' is
  int32_t tile_rows;
  int32_t num_threads;
  int32_t shared_bytes;
  int32_t map_tokens = 0;   // > 0: takes HopperParams, with boxes of up to this many tokens
  int32_t map_columns = 0;  // of a box
  bool map_swizzled = false;
};

// For __nv_bfloat16 and __half, head sizes up to 64, 128, 256 and 512. Few rows per KV head: the
// warps share out a tile's keys.
template <typename Element, int kHeadDim>
TiledKernel DecodeKernel();
// The same for a cache of 8-bit elements of either format, queries of either 16-bit type, and head
// sizes that are multiples of 16; before Hopper also for many rows.
template <int kHeadDim>
TiledKernel Float8DecodeKernel();
// Many rows: the warps share out its rows. On Hopper for heads of more than 256 only.
template <typename Element, int kHeadDim>
TiledKernel PrefillKernel();
// The same for a cache of 8-bit elements and heads of more than 256.
template <int kHeadDim>
TiledKernel Float8PrefillKernel();

}  // namespace quire::cuda
