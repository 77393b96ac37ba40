// GatedDelta: the mixer of a gated delta net between its projections: a causal convolution, gates,
// the delta rule (Yang, Kautz and Hatamizadeh 2024) and a gated norm, over the states that the
// sequences of a step keep. Plain values; any thread.
#pragma once

#include <cstdint>

#include "kernels/base/tensor.h"
#include "kernels/base/types.h"
#include "kernels/device.h"

namespace quire {

struct GatedDeltaShape {
  static constexpr int32_t kMaxHeadDim = 256;
  static constexpr int32_t kMaxConvWidth = 4;
  static constexpr int32_t kTileHeadDim = 128;

  int32_t num_k_heads = 0;  // of queries, and of keys
  // A multiple of num_k_heads: head h uses the query and the key of head
  // h / (num_v_heads / num_k_heads).
  int32_t num_v_heads = 0;
  int32_t k_head_dim = 0;  // both: a multiple of 8, at most kMaxHeadDim
  int32_t v_head_dim = 0;
  int32_t conv_width = 0;  // 2 .. kMaxConvWidth

  int64_t num_channels() const {
    return 2 * int64_t{num_k_heads} * k_head_dim + v_size();  // queries, keys, values
  }
  int64_t v_size() const { return int64_t{num_v_heads} * v_head_dim; }
  // Whether a GPU has kernels for decodes and for tiles of prompts.
  bool has_tiles() const { return k_head_dim == kTileHeadDim && v_head_dim == kTileHeadDim; }
};

// The states of one layer. Slot s begins s * stride bytes behind each pointer.
struct StateView {
  // [conv_width - 1, num_channels] of the activations' dtype: the last inputs of the convolution,
  // oldest first.
  void* conv = nullptr;
  void* recurrent = nullptr;  // [num_v_heads, k_head_dim, v_head_dim] of `dtype`
  int64_t conv_stride_bytes = 0;
  int64_t recurrent_stride_bytes = 0;
  DType dtype = DType::kF32;  // kF32; on a GPU also kBF16, rounded when the step's state is written
};

// Which states a sequence of a step reads and writes. A slot that one sequence writes is neither
// read nor written by another one of the same step; several may read a slot that none writes.
struct StateAccess {
  int32_t read;   // the slot it begins from; -1: from zeros, whatever the slots hold
  int32_t write;  // the slot that has its state after the step, perhaps `read`; -1: padding
  int32_t first_snapshot = 0;  // in StateBatch::snapshots
  int32_t num_snapshots = 0;
};

// A copy of a sequence's state in the middle of a step.
struct StateSnapshot {
  int32_t num_tokens;  // after this many of the sequence's tokens in this step: 1 .. all of them
  int32_t slot;        // which the sequence does not read
};

// The sequences of a step; device pointers at fixed addresses. Each has at least one token, but
// padding may have none. Padding reads and writes no slot, and its rows of the output stay, as do
// those of tokens outside [cu_seqlens_q[0], cu_seqlens_q[num_seqs]).
struct StateBatch {
  int32_t num_seqs;
  int32_t num_decodes;             // sequences 0 .. num_decodes-1 have one token each
  const int32_t* cu_seqlens_q;     // [num_seqs + 1]
  const int32_t* seq_lens;         // [num_seqs]: tokens, with this step's; the CPU reads it not
  const StateAccess* sequences;    // [num_seqs]
  const StateSnapshot* snapshots;  // [as many as the sequences name]
};

// For each token of a sequence, in order:
//   y = silu(conv(u)), rounded to the activations' dtype; q, k, v = y
//   q = q / sqrt(sum(q^2) + 1e-6) / sqrt(k_head_dim), k = k / sqrt(sum(k^2) + 1e-6)
//   S = S * exp(-exp(a_log) * softplus(a + dt_bias)); S = S + k (sigmoid(b) (v - S^T k))^T
//   out = o / sqrt(mean(o^2) + norm_eps) * norm_weight * silu(z), o = S^T q
// S is one matrix [k_head_dim, v_head_dim] of each v head. Then the state is written. A token's
// bits do not depend on the other sequences; on the CPU also not on how its sequence is cut into
// steps or on the number of threads. On a Hopper GPU, with activations of 16 bits and heads of 128,
// sequences that are no decodes are computed in tiles that end where a multiple of 64 tokens of the
// sequence does, so cuts there change no bits either; matrices are multiplied as float16, beyond
// whose range is its largest number, and added in float32.
struct GatedDeltaArgs {
  GatedDeltaShape shape;
  Tensor qkvz;         // [num_tokens, num_channels + num_v_heads * v_head_dim]: u, then z
  Tensor ba;           // [num_tokens, 2 * num_v_heads]: b, then a
  Tensor conv_weight;  // [num_channels, conv_width] float32; the last one is the newest input's
  Tensor a_log;        // [num_v_heads] float32
  Tensor dt_bias;      // [num_v_heads] float32
  Tensor norm_weight;  // [v_head_dim] float32
  float norm_eps;
  StateView state;
  StateBatch batch;
  Tensor conv_out;   // [num_tokens, num_channels] of the activations' dtype: room for y
  Tensor room = {};  // [at least GatedDeltaRoomBytes] uint8
  Tensor out;        // [num_tokens, num_v_heads * v_head_dim]
};

// The size of GatedDeltaArgs::room for a step of at most max_num_tokens tokens.
int64_t GatedDeltaRoomBytes(const GatedDeltaShape& shape, int64_t max_num_tokens,
                            DeviceKind device);

// The CPU computes this many tokens at a time, and has room for float32 values of each.
inline constexpr int64_t kGatedDeltaRoomTokens = 512;

// A GPU: for each v head and tile of a pass over the tokens two matrices of 16 bits and three
// vectors of float32.
inline constexpr int64_t kGatedDeltaTileTokens = 64;
inline constexpr int64_t kGatedDeltaTileBytes =
    4 * kGatedDeltaTileTokens * kGatedDeltaTileTokens + 12 * kGatedDeltaTileTokens;
// 2,048 tokens, and one tile more where they do not begin at a tile.
inline constexpr int32_t kGatedDeltaTilesPerPass = 33;

}  // namespace quire
