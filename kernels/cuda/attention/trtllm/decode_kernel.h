// The compiled decode kernels as the host side knows them. There is one for each type of cache,
// head size and number of rows of a warp, and each is compiled from decode_attention.cuh in a file
// of its own. For sm_90a.
#pragma once

#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/base/dtype.h"
#include "kernels/cuda/attention/trtllm/decode_plan.h"

namespace quire::cuda::trtllm {

// How a batch's rows are shared out and how shared memory is used: the same for all items.
struct DecodeLayout {
  int32_t group_size;  // query heads of a KV head
  int32_t query_len;
  int32_t row_tiles;   // units of a KV head
  int32_t row_splits;  // warps that share a tile of keys, each with rows of its own: 1, 2 or 4
  int32_t ring_tiles;  // tiles of keys that shared memory holds
  // Mbarriers of tiles that have arrived: a multiple of the number of warps that take turns, at
  // least ring_tiles. So each is only ever waited for by the warps of one turn, every phase of it.
  int32_t num_arrivals;
  int32_t partial_rows;  // rows of a unit
  int32_t pass_rows;     // rows of a warp that are combined at a time: at most 8
  int32_t shared_bytes;
};

struct DecodeParams {
  // [blocks, KV heads, tokens, head_dim] of K and of V; boxes of a line of one block's tokens.
  CUtensorMap k_map;
  CUtensorMap v_map;
  const void* q;          // [num_tokens, num_q_heads, head_dim]
  void* out;              // likewise
  float* lse;             // [num_tokens, num_q_heads], base 2, or null
  const float* sinks;     // [num_q_heads], or null
  const float* k_scales;  // [num_kv_heads], or null
  const float* v_scales;
  int64_t q_row_stride;
  int64_t out_row_stride;
  int32_t num_q_heads;
  DType query_dtype;  // and of results, either type of 16 bits
  AttentionVariant variant;

  BlockTables blocks;
  DecodeLayout layout;
  const DecodeItem* items;
  const DecodeShare* shares;  // by CTA
  // What a share leaves of the unit that goes on after it, not normalised.
  float* partial_out;     // [shares, partial_rows, head_dim]
  float2* partial_state;  // [shares, partial_rows]: maximum (base 2) and sum
  int32_t* arrivals;      // [shares], of the unit that begins there; zero between runs
};

struct DecodeKernel {
  void (*function)(DecodeParams);
  int32_t num_threads;
  int32_t num_warps;  // that compute
  int32_t warp_rows;
  int32_t tile_bytes;  // of K and V together
  // Bytes of shared memory beside the tiles, of which some follow from the number of tiles.
  int32_t (*other_bytes)(const DecodeLayout& layout);
};

// Bytes of K, or of V, that a row of a box has.
constexpr int32_t LineBytes(int32_t row_bytes) { return row_bytes < 128 ? row_bytes : 128; }

// kElement: __nv_bfloat16, __half, __nv_fp8_e4m3, __nv_fp8_e5m2. kWarpRows: 8 or 16.
template <typename Element, int kHeadDim, int kWarpRows>
DecodeKernel GetDecodeKernel();

}  // namespace quire::cuda::trtllm
