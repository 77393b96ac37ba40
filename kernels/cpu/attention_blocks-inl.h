// The register tiles of the CPU's attention: transposing keys, scoring and adding up values. In
// each, one lane's chain of multiply-adds is the same whatever the number of rows in the tile.
// Included once per target, after hwy/foreach_target.h.
#if defined(QUIRE_KERNELS_CPU_ATTENTION_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_ATTENTION_BLOCKS_INL_H_
#undef QUIRE_KERNELS_CPU_ATTENTION_BLOCKS_INL_H_
#else
#define QUIRE_KERNELS_CPU_ATTENTION_BLOCKS_INL_H_
#endif

#include <algorithm>
#include <limits>
#include <type_traits>

#include "kernels/cpu/attention_kernel.h"
#include "kernels/cpu/simd-inl.h"

#undef QUIRE_UNROLL
// GCC unrolls short loops over vector registers at -O2 only when told.
#define QUIRE_UNROLL _Pragma("GCC unroll 16")

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

// Keys are transposed in 32-bit words, so that one shuffle moves two bfloat16.
template <typename T>
constexpr int64_t kElementsPerWord = 4 / static_cast<int64_t>(sizeof(T));

// Four words of kLanes keys: lane i of words[w] is word w of key i.
struct KeyColumns {
  VF32 words[4];
};

#if HWY_TARGET == HWY_SCALAR

template <typename T>
HWY_INLINE KeyColumns LoadColumns(const T* key, int64_t, int64_t word) {
  KeyColumns columns;
  for (int64_t i = 0; i < 4; ++i) {
    columns.words[i] = hn::LoadU(F32(), reinterpret_cast<const float*>(key) + word + i);
  }
  return columns;
}

#else

// 128-bit blocks of four words: block b of the result is from the key 4 * b rows on.
template <typename T>
HWY_INLINE VF32 LoadBlocks(const T* key, int64_t stride, int64_t word) {
  const hn::CappedTag<float, 4> d4;
  const auto load = [&](int64_t b) HWY_ATTR {
    return hn::LoadU(d4, reinterpret_cast<const float*>(key + 4 * b * stride) + word);
  };
  if constexpr (kLanes == 16) {
    const hn::CappedTag<float, 8> d8;
    return hn::Combine(F32(), hn::Combine(d8, load(3), load(2)), hn::Combine(d8, load(1), load(0)));
  } else if constexpr (kLanes == 8) {
    return hn::Combine(F32(), load(1), load(0));
  } else {
    return load(0);
  }
}

template <typename T>
HWY_INLINE KeyColumns LoadColumns(const T* keys, int64_t stride, int64_t word) {
  const F32 d;
  const hn::Repartition<uint64_t, F32> d64;
  const auto lower64 = [&](VF32 a, VF32 b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveLower(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
  };
  const auto upper64 = [&](VF32 a, VF32 b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveUpper(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
  };
  const VF32 k0 = LoadBlocks(keys, stride, word);
  const VF32 k1 = LoadBlocks(keys + stride, stride, word);
  const VF32 k2 = LoadBlocks(keys + 2 * stride, stride, word);
  const VF32 k3 = LoadBlocks(keys + 3 * stride, stride, word);
  const VF32 low01 = hn::InterleaveLower(d, k0, k1);
  const VF32 low23 = hn::InterleaveLower(d, k2, k3);
  const VF32 high01 = hn::InterleaveUpper(d, k0, k1);
  const VF32 high23 = hn::InterleaveUpper(d, k2, k3);
  return {{lower64(low01, low23), upper64(low01, low23), lower64(high01, high23),
           upper64(high01, high23)}};
}

#endif  // HWY_TARGET == HWY_SCALAR

// Fetches the part of kLanes keys that LoadColumns is to read at `word`, a quarter of the rows at
// each of the four words that share a cache line.
template <typename T>
HWY_INLINE void FetchColumns(const T* keys, int64_t stride, int64_t word) {
  const T* first = keys + word / 4 % 4 * stride + word * kElementsPerWord<T>;
  QUIRE_UNROLL
  for (int64_t i = 0; i < kLanes; i += 4) FetchLine(first + i * stride);
}

// Writes the words of kLanes keys as columns: out[w * kKeyTile + key].
template <typename T>
HWY_INLINE void TransposeKeys(const T* keys, const T* next_keys, int64_t stride, int64_t num_words,
                              float* out) {
  for (int64_t w = 0; w < num_words; w += 4) {
    FetchColumns(next_keys, stride, w);
    const KeyColumns columns = LoadColumns(keys, stride, w);
    QUIRE_UNROLL
    for (int64_t i = 0; i < 4; ++i) {
      hn::StoreU(columns.words[i], F32(), out + (w + i) * kKeyTile);
    }
  }
}

// q[r] . k[key] for kRows rows and two vectors of keys. The sum over head_dim runs in ascending
// order in every lane, whatever kRows and wherever the words come from.
template <typename T, int kRows>
class ScoreTile {
 public:
  HWY_INLINE ScoreTile(const float* q, int64_t head_dim) : q_(q), head_dim_(head_dim) {
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) sums_[r][0] = sums_[r][1] = hn::Zero(F32());
  }

  // Word number `word` of vector `v` of keys.
  HWY_INLINE void Add(int64_t word, int v, VF32 words) {
    const F32 d;
    const int64_t i = word * kElementsPerWord<T>;
    if constexpr (std::is_same_v<T, float>) {
      AddElement(i, v, words);
    } else {
      static_assert(std::is_same_v<T, BFloat16>);
      const hn::RebindToUnsigned<F32> d32;
      const auto bits = hn::BitCast(d32, words);
      AddElement(i, v, hn::BitCast(d, hn::ShiftLeft<16>(bits)));
      AddElement(i + 1, v, hn::BitCast(d, hn::And(bits, hn::Set(d32, 0xffff0000u))));
    }
  }

  // scores[r * kKeyTile + key].
  HWY_INLINE void Store(float* scores) const {
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      hn::StoreU(sums_[r][0], F32(), scores + r * kKeyTile);
      hn::StoreU(sums_[r][1], F32(), scores + r * kKeyTile + kLanes);
    }
  }

 private:
  HWY_INLINE void AddElement(int64_t i, int v, VF32 keys) {
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      sums_[r][v] = hn::MulAdd(hn::Set(F32(), q_[r * head_dim_ + i]), keys, sums_[r][v]);
    }
  }

  const float* q_;
  const int64_t head_dim_;
  VF32 sums_[kRows][2];
};

// Scores against keys that TransposeKeys wrote.
template <typename T, int kRows>
HWY_INLINE void ScoreColumns(const float* q, int64_t head_dim, const float* columns,
                             float* scores) {
  const F32 d;
  ScoreTile<T, kRows> tile(q, head_dim);
  for (int64_t w = 0; w < head_dim / kElementsPerWord<T>; ++w, columns += kKeyTile) {
    tile.Add(w, 0, hn::LoadU(d, columns));
    tile.Add(w, 1, hn::LoadU(d, columns + kLanes));
  }
  tile.Store(scores);
}

// Scores against two vectors of keys from `key` on, transposed on the way.
template <typename T, int kRows>
HWY_INLINE void ScoreKeys(const float* q, int64_t head_dim, const TileRows<T>& keys,
                          const TileRows<T>& next_keys, int64_t key, float* scores) {
  ScoreTile<T, kRows> tile(q, head_dim);
  // A cache line of all rows is used up before others come, which may fall on the same cache set.
  constexpr int64_t kLineWords = 16;
  const int64_t num_words = head_dim / kElementsPerWord<T>;
  for (int64_t line = 0; line < num_words; line += kLineWords) {
    const int64_t line_end = std::min(line + kLineWords, num_words);
    QUIRE_UNROLL
    for (int v = 0; v < 2; ++v) {
      const T* rows = keys.Row(key + v * kLanes);
      const T* next_rows = next_keys.Row(key + v * kLanes);
      for (int64_t w = line; w < line_end; w += 4) {
        FetchColumns(next_rows, keys.stride, w);
        const KeyColumns columns = LoadColumns(rows, keys.stride, w);
        QUIRE_UNROLL
        for (int64_t i = 0; i < 4; ++i) tile.Add(w + i, v, columns.words[i]);
      }
    }
  }
  tile.Store(scores);
}

template <typename T>
HWY_INLINE void FetchRow(const T* row, int64_t size) {
  constexpr int64_t kLineElements = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < size; i += kLineElements) FetchLine(row + i);
}

// out[r] += sum over keys [begin, end), ascending, of weights[r][key] * v[key]; kVectors vectors.
// Meanwhile fetches the same columns of `next_v`, unless null.
template <typename V, int kRows, int kVectors>
HWY_INLINE void AddValueColumns(const float* weights, const TileRows<V>& v,
                                const TileRows<V>* next_v, int64_t begin, int64_t end,
                                int64_t column, float* out, int64_t out_stride) {
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
        const VF32 weight = hn::Set(d, weights[r * kKeyTile + key]);
        QUIRE_UNROLL
        for (int i = 0; i < kVectors; ++i) sums[r][i] = hn::MulAdd(weight, values[i], sums[r][i]);
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
