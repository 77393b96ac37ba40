// The inner part of the CPU's native attention: one query tile of one KV head against a range of
// key splits. A tile is up to kMaxQueryRows rows, a row being one query token of one query head;
// the query heads that share a KV head are computed together, so K and V are read once for all of
// them. Compiled once per SIMD target and chosen at run time. Called from the pool's threads, each
// with its own scratch.
#pragma once

#include <algorithm>
#include <cstdint>

#include "hwy/aligned_allocator.h"
#include "kernels/attention.h"

namespace quire::cpu {

inline constexpr int64_t kKeyTile = 64;     // keys between two updates of a row's maximum
inline constexpr int64_t kKeySplit = 1024;  // keys that one softmax state covers
inline constexpr int64_t kMaxQueryRows = 64;
inline constexpr int64_t kMaxHeadDim = 512;

// Row length of float32 scratch: whole vectors of any target, from one cache line to the next.
constexpr int64_t PaddedHeadDim(int64_t head_dim) { return RoundUp<int64_t>(head_dim, 16); }

// Softmax state of some rows: the weighted sum of values, the largest logit and the sum of
// probabilities relative to it. Logits are in base 2. A row that has seen no key has max -infinity
// and sum 0.
struct AttentionState {
  float* out = nullptr;  // [num_rows, PaddedHeadDim(head_dim)]
  float* max = nullptr;  // [num_rows]
  float* sum = nullptr;  // [num_rows]

  AttentionState FromRow(int64_t row, int64_t padded_dim) const {
    return {out + row * padded_dim, max + row, sum + row};
  }
};

// Owns the memory of `num_rows` rows of state.
class AttentionStateBuffer {
 public:
  AttentionStateBuffer(int64_t num_rows, int64_t padded_dim);
  const AttentionState& state() const { return state_; }

 private:
  hwy::AlignedFreeUniquePtr<float[]> memory_;
  AttentionState state_;
};

// The memory that one thread needs to compute tiles of one head_dim. It is laid out as VectorRows
// uses it; AmxRows says itself what it keeps where.
struct AttentionScratch {
  explicit AttentionScratch(int64_t head_dim);

  hwy::AlignedFreeUniquePtr<float[]> memory;
  float* queries;    // [kMaxQueryRows, head_dim], scaled
  float* keys;       // [words per key, kKeyTile]: 32-bit words of K, transposed
  float* scores;     // [kMaxQueryRows, kKeyTile]: logits, then probabilities
  float* values;     // [kKeyTile, padded]: V in float32
  float* lane_sums;  // [kMaxQueryRows, 16]: the sum of probabilities by vector lane
  AttentionStateBuffer split;
  AttentionStateBuffer total;
};

struct AttentionTile {
  const AttentionGeometry* geometry;
  const AttentionRunArgs* args;
  const BlockId* blocks;  // of the sequence; only entries of visible keys are read
  int64_t kv_head;
  int64_t first_token;     // row of the first query in args->q
  int64_t first_position;  // its position in the sequence; negative for padding
  int64_t num_queries;
  int64_t first_split;  // key splits [first_split, end_split)
  int64_t end_split;
  // Where the tile is computed in pieces: the states of its splits, from first_split on,
  // partial_stride rows apart. Without: AttendTile writes the output itself.
  AttentionState partials;
  int64_t partial_stride;
  bool with_amx;  // bfloat16 queries, keys and values, and a head_dim that AmxServes
  bool merges;    // AttentionLimits::merges

  int64_t group_size() const { return geometry->num_q_heads / geometry->num_kv_heads; }
  int64_t num_rows() const { return num_queries * group_size(); }
};

// Whether AMX computes this geometry where the instruction set is there: all rows of it, so that
// their bits do not depend on what else is in a tile.
inline bool AmxServes(const AttentionGeometry& geometry) {
  return geometry.query_dtype == DType::kBF16 && geometry.kv_dtype == DType::kBF16 &&
         geometry.k_head_dim % 32 == 0;
}

// Visible keys of the query at `position`: [begin, end).
struct KeyRange {
  int64_t begin;
  int64_t end;
  bool empty() const { return begin >= end; }
};
inline KeyRange VisibleKeys(int64_t position, int64_t sliding_window) {
  const int64_t end = position < 0 ? 0 : position + 1;
  return {sliding_window > 0 && end > sliding_window ? end - sliding_window : 0, end};
}

// Keys that some row of the tile sees, within its splits.
inline KeyRange KeysOf(const AttentionTile& tile) {
  const int64_t window = tile.geometry->sliding_window;
  const int64_t last_position = tile.first_position + tile.num_queries - 1;
  return {std::max(VisibleKeys(tile.first_position, window).begin, tile.first_split * kKeySplit),
          std::min(VisibleKeys(last_position, window).end, tile.end_split * kKeySplit)};
}

// `next`: the tile that this thread is to compute after this one, or null; its first keys and
// values are fetched meanwhile.
void AttendTile(const AttentionTile& tile, const AttentionTile* next, AttentionScratch& scratch);

// Folds the partials of splits [first_split, end_split) and writes the tile's output.
void MergeTile(const AttentionTile& tile, AttentionScratch& scratch);

}  // namespace quire::cpu
