// The parts that the CPU's ways to attend share: sizes, row blocks, queries, the places of a tile's
// keys, and the register tile that adds up values. In that tile one lane is one column, and its
// chain of multiply-adds over the keys is the same for any number of rows. Included once per
// target, after hwy/foreach_target.h.
#if defined(QUIRE_KERNELS_CPU_ATTENTION_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_ATTENTION_BLOCKS_INL_H_
#undef QUIRE_KERNELS_CPU_ATTENTION_BLOCKS_INL_H_
#else
#define QUIRE_KERNELS_CPU_ATTENTION_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/cpu/attention/attention_kernel.h"
#include "kernels/cpu/runtime/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

constexpr int64_t kLanes = NumLanes();
constexpr int64_t kKeyGroup = 16;   // keys in one piece of a block, whatever its size
constexpr int64_t kKeyStripe = 32;  // keys are scored in whole stripes
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// Rows of one register tile: as many accumulators as the target has registers for.
constexpr int kScoreRows = kLanes >= 16 ? 8 : 4;
constexpr int kValueRows = kLanes >= 16 ? 4 : 2;
constexpr int kValueVectors = 4;
// Up to this many rows use the transposed keys so little that they need not be kept.
constexpr int kFewRows = kLanes >= 16 ? 4 : 2;
// From this many rows on, widening V once is cheaper than in every register tile.
constexpr int64_t kMinRowsToWiden = 8;

// Calls fn(std::integral_constant<int, n>, first_row) for n = num_rows <= kMax.
template <int kMax, typename Fn>
HWY_INLINE void ForOneRowBlock(int64_t num_rows, int64_t row, Fn fn) {
  if constexpr (kMax > 0) {
    if (num_rows == kMax) return fn(std::integral_constant<int, kMax>(), row);
    ForOneRowBlock<kMax - 1>(num_rows, row, fn);
  }
}

// The same for blocks of kMax rows, and one of the rest.
template <int kMax, typename Fn>
HWY_INLINE void ForRowBlocks(int64_t num_rows, Fn fn) {
  int64_t row = 0;
  for (; row + kMax <= num_rows; row += kMax) fn(std::integral_constant<int, kMax>(), row);
  ForOneRowBlock<kMax - 1>(num_rows - row, row, fn);
}

HWY_INLINE float Exp2Scalar(float x) { return hn::GetLane(Exp2(hn::Set(F32(), x))); }

// Into the second-level cache: it keeps far more fetches in flight than the first.
HWY_INLINE void FetchLine(const void* line) { __builtin_prefetch(line, 0, 2); }

// Where the keys, or the values, of one tile lie.
template <typename T>
struct TileRows {
  const T* groups[kKeyTile / kKeyGroup];
  int64_t stride;  // between rows of a group, in elements

  HWY_INLINE const T* Row(int64_t key) const {
    return groups[key / kKeyGroup] + key % kKeyGroup * stride;
  }
};

// The keys that are attended at once, at positions from a multiple of kKeyTile on.
template <typename T>
struct KeyTile {
  TileRows<T> k;
  TileRows<T> v;
  // The keys that some row sees, and the keys that each row sees (none: begin >= end), within the
  // tile. Other keys may be scored, too, but never count.
  int64_t begin;
  int64_t end;
  int64_t row_begin[kMaxQueryRows];
  int64_t row_end[kMaxQueryRows];
};

// The factor that turns a product of query and key into the logit in base 2, or into the input of
// the soft cap.
inline float ScoreScale(const AttentionGeometry& geometry) {
  return geometry.soft_cap > 0 ? geometry.scale / geometry.soft_cap : geometry.scale * kLog2E;
}

// The soft cap of logits in base 2; 0: none.
inline float ScoreCap(const AttentionGeometry& geometry) { return geometry.soft_cap * kLog2E; }

// What a stored key, or value, of a KV head is multiplied by.
inline float CacheScale(const float* scales, int64_t kv_head) {
  return scales == nullptr ? 1.0f : scales[kv_head];
}

// The queries of a tile, scaled: [num_rows, head_dim].
template <typename Q>
void LoadQueries(const AttentionTile& tile, float* queries) {
  const AttentionGeometry& geometry = *tile.geometry;
  const Tensor& q = tile.args->q;
  const int64_t group_size = tile.group_size();
  const float scale = ScoreScale(geometry) * CacheScale(tile.args->kv_cache.k.scales, tile.kv_head);
  const int64_t size = group_size * geometry.k_head_dim;
  for (int64_t i = 0; i < tile.num_queries; ++i) {
    const Q* from = q.as<Q>() + (tile.first_token + i) * q.row_stride() + tile.kv_head * size;
    for (int64_t j = 0; j < size; j += kLanes) {
      const VF32 values = LoadF32(from + j, size - j);
      StoreF32(hn::Mul(values, hn::Set(F32(), scale)), queries + j, size - j);
    }
    queries += size;
  }
}

template <typename T>
HWY_INLINE void FetchRow(const T* row, int64_t size) {
  constexpr int64_t kLineElements = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < size; i += kLineElements) FetchLine(row + i);
}

// Rows [begin, end) of a tile in float32: to `wide`, [kKeyTile, PaddedHeadDim(head_dim)]. Meanwhile
// fetches those of `next`.
template <typename T>
TileRows<float> WidenRows(const TileRows<T>& from, const TileRows<T>& next, int64_t begin,
                          int64_t end, int64_t head_dim, float* wide) {
  TileRows<float> rows;
  rows.stride = PaddedHeadDim(head_dim);
  for (int64_t group = 0; group < kKeyTile / kKeyGroup; ++group) {
    rows.groups[group] = wide + group * kKeyGroup * rows.stride;
  }
  for (int64_t key = begin; key < end; ++key) {
    FetchRow(next.Row(key), head_dim);
    const T* row = from.Row(key);
    float* to = wide + key * rows.stride;
    for (int64_t i = 0; i < head_dim; i += kLanes) StoreF32(LoadF32(row + i, head_dim - i), to + i);
  }
  return rows;
}

// out[r] += sum over keys [begin, end), ascending, of probs[r][key] * v[key]; kVectors vectors.
// Meanwhile fetches the same columns of `next_v`, unless null.
template <typename V, int kRows, int kVectors>
HWY_INLINE void AddValueColumns(const float* probs, const TileRows<V>& v, const TileRows<V>* next_v,
                                int64_t begin, int64_t end, int64_t column, float* out,
                                int64_t out_stride) {
  const F32 d;
  VF32 sums[kRows][kVectors];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      sums[r][i] = hn::LoadU(d, out + r * out_stride + column + i * kLanes);
    }
  }
  for (int64_t key = begin; key < end;) {
    const int64_t group_end = std::min(end, RoundUp(key + 1, kKeyGroup));
    const V* row = v.Row(key) + column;
    const int64_t to_next = next_v != nullptr ? next_v->Row(key) + column - row : 0;
    for (; key < group_end; ++key, row += v.stride) {
      VF32 values[kVectors];
      QUIRE_UNROLL
      for (int i = 0; i < kVectors; ++i) values[i] = LoadF32(row + i * kLanes);
      if (to_next != 0) FetchRow(row + to_next, kVectors * kLanes);
      QUIRE_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const VF32 prob = hn::Set(d, probs[r * kKeyTile + key]);
        QUIRE_UNROLL
        for (int i = 0; i < kVectors; ++i) sums[r][i] = hn::MulAdd(prob, values[i], sums[r][i]);
      }
    }
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      hn::StoreU(sums[r][i], d, out + r * out_stride + column + i * kLanes);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_KERNELS_CPU_ATTENTION_BLOCKS_INL_H_
