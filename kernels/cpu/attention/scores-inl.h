// Query times key for the CPU's attention: keys are transposed, so that a vector lane is a key and
// a score is one chain of multiply-adds over head_dim. The chain is the same whatever the number of
// rows, and whether the transposed keys are kept in memory (many rows) or not (few). Included once
// per target, after hwy/foreach_target.h.
#if defined(QUIRE_KERNELS_CPU_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_ATTENTION_SCORES_INL_H_
#undef QUIRE_KERNELS_CPU_ATTENTION_SCORES_INL_H_
#else
#define QUIRE_KERNELS_CPU_ATTENTION_SCORES_INL_H_
#endif

#include <algorithm>
#include <type_traits>

#include "kernels/cpu/attention/blocks-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

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

// Writes four columns.
HWY_INLINE void StoreColumns(const KeyColumns& columns, float* to, int64_t stride) {
  QUIRE_UNROLL
  for (int64_t i = 0; i < 4; ++i) hn::StoreU(columns.words[i], F32(), to + i * stride);
}

// Writes the words of kLanes keys as columns: out[w * kKeyTile + key].
template <typename T>
HWY_INLINE void TransposeKeys(const T* keys, const T* next_keys, int64_t stride, int64_t num_words,
                              float* out) {
  for (int64_t w = 0; w < num_words; w += 4) {
    FetchColumns(next_keys, stride, w);
    StoreColumns(LoadColumns(keys, stride, w), out + w * kKeyTile, kKeyTile);
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

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_KERNELS_CPU_ATTENTION_SCORES_INL_H_
