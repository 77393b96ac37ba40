// The kernels of GatedDelta on a GPU, and what they share. After the convolution one of the other
// kernels moves each sequence on; few decodes need only one kernel. Engine thread.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime_api.h>

#include "kernels/gated_delta.h"

namespace quire::cuda {

// The size of heads for which there are more kernels than LaunchDeltaRule's.
inline constexpr int kDeltaHeadDim = GatedDeltaShape::kTileHeadDim;

// GatedDeltaArgs as kernels read them; strides in elements.
struct GatedDeltaParams {
  GatedDeltaShape shape;
  StateView state;
  StateBatch batch;
  DType dtype;  // of activations
  int num_tokens;
  int num_channels;
  const void* qkvz;
  const void* ba;
  void* y;  // GatedDeltaArgs::conv_out
  void* out;
  int64_t qkvz_stride, ba_stride, y_stride, out_stride;
  const float* conv_weight;
  const float* a_log;
  const float* dt_bias;
  const float* norm_weight;
  float norm_eps;
  // Queries and keys of sequences [first_unit_seq, num_seqs) are left in y as unit vectors, in
  // float16 whatever the dtype.
  int first_unit_seq;
};

// y of the tokens of sequences [first_seq, num_seqs), and each sequence's last inputs in its slots.
void LaunchDeltaConv(const GatedDeltaParams& params, int first_seq, cudaStream_t stream);

// All of it for sequences [0, num_decodes), on sm_90 and for at most kMaxHeadsOfKey v heads of a k
// head. Fewer launches than with a convolution of its own, but more for a CTA to wait for: for as
// few sequences as have a place for each of their heads at once.
inline constexpr int kMaxHeadsOfKey = 8;
void LaunchDeltaDecode(const GatedDeltaParams& params, cudaStream_t stream);

// The rest for them. It begins before LaunchDeltaConv's kernel, which must come right before it,
// has ended.
void LaunchDeltaDecodeAfterConv(const GatedDeltaParams& params, cudaStream_t stream);

// The rest for sequences [first_seq, num_seqs), token after token, heads of any size.
void LaunchDeltaRule(const GatedDeltaParams& params, int first_seq, cudaStream_t stream);

// The rest for sequences [num_decodes, num_seqs), which have unit vectors, in passes over tiles of
// this many tokens; activations of 16 bits, on sm_90a.
inline constexpr int kTileTokens = kGatedDeltaTileTokens;

// The data of a tile and a v head, in GatedDeltaArgs::room. G are the sums of the log decays from
// the tile's first token on, and D[i][j] = exp(G_i - G_j).
struct TileRoom {
  // [j][i] of (I + A)^-1 diag(beta), A = strictly_lower(diag(beta) K K^T . D).
  __half solved[kTileTokens * kTileTokens];
  // [i][j] of lower(Q K^T . D).
  __half scores[kTileTokens * kTileTokens];
  float sums[kTileTokens];     // G, in units of log 2
  float decays[kTileTokens];   // e^G
  float remains[kTileTokens];  // e^(G of the last token - G)
};
static_assert(sizeof(TileRoom) == kGatedDeltaTileBytes);

// The room's parts for a pass, and for the sequence that goes on in the next pass.
struct PassRoom {
  TileRoom* tiles;        // [kGatedDeltaTilesPerPass, num_v_heads]
  const float* carry_in;  // [num_v_heads, kDeltaHeadDim, kDeltaHeadDim]
  float* carry_out;
  int first_slot;  // of the pass
};

// A pass is LaunchDeltaTiles, then LaunchDeltaScan, with nothing in between; passes follow each
// other so, too, their tiles and carries in turn in two places of the room. The tiles of the next
// pass are computed while this one's scan runs.
void LaunchDeltaTiles(const GatedDeltaParams& params, const PassRoom& room, bool is_first,
                      cudaStream_t stream);
void LaunchDeltaScan(const GatedDeltaParams& params, const PassRoom& room, cudaStream_t stream);

}  // namespace quire::cuda
