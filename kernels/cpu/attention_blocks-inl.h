// The register tiles of the CPU's attention: transposing keys, scoring and adding up values. In
// each, one lane's chain of multiply-adds is the same whatever the number of rows in the tile.
// Included once per target, after hwy/foreach_target.h.
#if defined(QUIRE_KERNELS_CPU_ATTENTION_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_ATTENTION_BLOCKS_INL_H_
#undef QUIRE_KERNELS_CPU_ATTENTION_BLOCKS_INL_H_
#else
#define QUIRE_KERNELS_CPU_ATTENTION_BLOCKS_INL_H_
#endif

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
constexpr int64_t kKeyStripe = 32;  // keys are transposed and scored in whole stripes
constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// Rows of one register tile: as many accumulators as the target has registers for.
constexpr int kScoreRows = kLanes >= 16 ? 8 : 4;
constexpr int kValueRows = kLanes >= 16 ? 4 : 2;
constexpr int kValueVectors = 4;
// From this many rows on, widening V once is cheaper than in every register tile.
constexpr int64_t kMinRowsToWiden = 8;

// Calls fn(std::integral_constant<int, n>, first_row) over blocks of kMax, kMax/2, ... 1 rows.
template <int kMax, typename Fn>
HWY_INLINE void ForRowBlocks(int64_t num_rows, Fn fn, int64_t row = 0) {
  for (; row + kMax <= num_rows; row += kMax) fn(std::integral_constant<int, kMax>(), row);
  if constexpr (kMax > 1) ForRowBlocks<kMax / 2>(num_rows, fn, row);
}

HWY_INLINE float Exp2Scalar(float x) { return hn::GetLane(Exp2(hn::Set(F32(), x))); }

// Into the second-level cache: it keeps far more fetches in flight than the first.
HWY_INLINE void FetchLine(const void* line) { __builtin_prefetch(line, 0, 2); }

template <typename T>
constexpr int64_t kElementsPerWord = 4 / static_cast<int64_t>(sizeof(T));

#if HWY_TARGET == HWY_SCALAR

// Writes `num_words` words of one key as a column: out[w * kKeyTile].
template <typename T>
HWY_INLINE void TransposeKeys(const T* const* rows, const T* const*, int64_t num_words,
                              float* out) {
  for (int64_t w = 0; w < num_words; ++w) {
    std::memcpy(out + w * kKeyTile, reinterpret_cast<const char*>(rows[0]) + w * 4, 4);
  }
}

#else

// 128-bit blocks of four words from `word` on: block b of the result is row 4 * b.
template <typename T>
HWY_INLINE VF32 LoadBlocks(const T* const* rows, int64_t word) {
  const hn::CappedTag<float, 4> d4;
  const auto load = [&](int b) HWY_ATTR {
    return hn::LoadU(d4, reinterpret_cast<const float*>(rows[4 * b]) + word);
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

// Writes `num_words` words of kLanes keys as columns: out[w * kKeyTile + key]. Meanwhile fetches
// the same part of the keys `next_rows`.
template <typename T>
HWY_INLINE void TransposeKeys(const T* const* rows, const T* const* next_rows, int64_t num_words,
                              float* out) {
  const F32 d;
  const hn::Repartition<uint64_t, F32> d64;
  const auto lower64 = [&](VF32 a, VF32 b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveLower(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
  };
  const auto upper64 = [&](VF32 a, VF32 b) HWY_ATTR {
    return hn::BitCast(d, hn::InterleaveUpper(d64, hn::BitCast(d64, a), hn::BitCast(d64, b)));
  };
  for (int64_t w = 0; w < num_words; w += 4) {
    // Four steps share a cache line: each fetches a quarter of the rows.
    QUIRE_UNROLL
    for (int64_t i = 0; i < kLanes; i += 4) {
      FetchLine(next_rows[i + w / 4 % 4] + w * kElementsPerWord<T>);
    }
    const VF32 k0 = LoadBlocks(rows, w);
    const VF32 k1 = LoadBlocks(rows + 1, w);
    const VF32 k2 = LoadBlocks(rows + 2, w);
    const VF32 k3 = LoadBlocks(rows + 3, w);
    const VF32 low01 = hn::InterleaveLower(d, k0, k1);
    const VF32 low23 = hn::InterleaveLower(d, k2, k3);
    const VF32 high01 = hn::InterleaveUpper(d, k0, k1);
    const VF32 high23 = hn::InterleaveUpper(d, k2, k3);
    hn::StoreU(lower64(low01, low23), d, out + w * kKeyTile);
    hn::StoreU(upper64(low01, low23), d, out + (w + 1) * kKeyTile);
    hn::StoreU(lower64(high01, high23), d, out + (w + 2) * kKeyTile);
    hn::StoreU(upper64(high01, high23), d, out + (w + 3) * kKeyTile);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

// scores[r][key] = q[r] . k[key] for kRows rows and two vectors of keys; the sum over head_dim runs
// in ascending order in every lane, whatever kRows.
template <typename T, int kRows>
HWY_INLINE void ScoreBlock(const float* q, int64_t head_dim, const float* keys, float* scores) {
  const F32 d;
  VF32 acc[kRows][2];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) acc[r][0] = acc[r][1] = hn::Zero(d);
  const auto step = [&](const float* q_element, VF32 k0, VF32 k1) HWY_ATTR {
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const VF32 q_all = hn::Set(d, q_element[r * head_dim]);
      acc[r][0] = hn::MulAdd(q_all, k0, acc[r][0]);
      acc[r][1] = hn::MulAdd(q_all, k1, acc[r][1]);
    }
  };
  if constexpr (std::is_same_v<T, float>) {
    for (int64_t i = 0; i < head_dim; ++i, keys += kKeyTile) {
      step(q + i, hn::LoadU(d, keys), hn::LoadU(d, keys + kLanes));
    }
  } else {
    static_assert(std::is_same_v<T, BFloat16>);
    const hn::RebindToUnsigned<F32> d32;
    const auto low_mask = hn::Set(d32, 0xffff0000u);
    for (int64_t i = 0; i < head_dim; i += 2, keys += kKeyTile) {
      const auto w0 = hn::BitCast(d32, hn::LoadU(d, keys));
      const auto w1 = hn::BitCast(d32, hn::LoadU(d, keys + kLanes));
      step(q + i, hn::BitCast(d, hn::ShiftLeft<16>(w0)), hn::BitCast(d, hn::ShiftLeft<16>(w1)));
      step(q + i + 1, hn::BitCast(d, hn::And(w0, low_mask)), hn::BitCast(d, hn::And(w1, low_mask)));
    }
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    hn::StoreU(acc[r][0], d, scores + r * kKeyTile);
    hn::StoreU(acc[r][1], d, scores + r * kKeyTile + kLanes);
  }
}

template <typename T>
HWY_INLINE void FetchRow(const T* row, int64_t size) {
  constexpr int64_t kLineElements = 64 / static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < size; i += kLineElements) FetchLine(row + i);
}

// out[r] += sum over keys [begin, end), ascending, of weights[r][key] * v[key]; kVectors vectors.
// Meanwhile fetches the same columns of `next_v`, unless null.
template <typename V, int kRows, int kVectors>
HWY_INLINE void ValueBlock(const float* weights, const V* const* v, const V* const* next_v,
                           int64_t begin, int64_t end, int64_t column, float* out,
                           int64_t out_stride) {
  const F32 d;
  VF32 acc[kRows][kVectors];
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      acc[r][i] = hn::LoadU(d, out + r * out_stride + column + i * kLanes);
    }
  }
  for (int64_t key = begin; key < end; ++key) {
    VF32 value[kVectors];
    QUIRE_UNROLL
    for (int i = 0; i < kVectors; ++i) value[i] = LoadF32(v[key] + column + i * kLanes);
    if (next_v != nullptr) FetchRow(next_v[key] + column, kVectors * kLanes);
    QUIRE_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const VF32 weight = hn::Set(d, weights[r * kKeyTile + key]);
      QUIRE_UNROLL
      for (int i = 0; i < kVectors; ++i) acc[r][i] = hn::MulAdd(weight, value[i], acc[r][i]);
    }
  }
  QUIRE_UNROLL
  for (int r = 0; r < kRows; ++r) {
    QUIRE_UNROLL
    for (int i = 0; i < kVectors; ++i) {
      hn::StoreU(acc[r][i], d, out + r * out_stride + column + i * kLanes);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_KERNELS_CPU_ATTENTION_BLOCKS_INL_H_
