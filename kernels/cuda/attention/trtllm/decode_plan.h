// The step's plan for decodes: all (sequence, unit, tile of keys) laid end to end and cut into
// equal shares, one for each CTA of the attention kernel. Plain data in device memory at fixed
// addresses, written by one small kernel a step, read by every layer's attention kernel.
//
// A unit is what one CTA computes at a time: the query rows of one KV head (all of its heads, and
// all query tokens), or, where these are more than fit a tile of rows, one tile of them. A CTA's
// share goes on across units and sequences; what it computes of one unit is an item.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/base/types.h"
#include "kernels/cuda/attention/tiles/variant.h"

namespace quire::cuda::trtllm {

// A tile of keys begins at a multiple of this from the start of its sequence.
inline constexpr int kTileKeys = 64;

// All that a warp must know of an item, so that one read tells it.
struct __align__(16) DecodeItem {
  int32_t table_row;    // of the sequence, in block_tables
  int32_t first_token;  // of the sequence, in q
  int32_t seq_len;
  int32_t unit;        // KV head * row tiles + row tile
  int32_t first_tile;  // of keys, counted from the start of the sequence
  int32_t num_tiles;   // at least one, which a sequence without keys has, too
  // Whose shares the unit is cut into: CTAs [first_cta, first_cta + num_ctas), in order of keys.
  int32_t first_cta;
  int32_t num_ctas;
};

// Items [first, last] of a CTA.
struct CtaShare {
  int32_t first;
  int32_t last;
};

struct DecodePlanParams {
  int32_t num_seqs;
  int32_t query_len;  // of every sequence
  const int32_t* cu_seqlens_q;
  const int32_t* seq_lens;
  const int32_t* seq_rows;
  int32_t units_per_seq;
  int32_t num_ctas;
  int32_t min_share;  // tiles; shares are no smaller
  AttentionVariant variant;
  int32_t* tile_starts;  // [max_num_seqs] tiles of the sequences before
  DecodeItem* items;     // [max_num_seqs * units_per_seq + num_ctas], an item of unit u and CTA c
                         // at u + c
  CtaShare* shares;      // [num_ctas]
};

void LaunchDecodePlan(const DecodePlanParams& params, cudaStream_t stream);

}  // namespace quire::cuda::trtllm
