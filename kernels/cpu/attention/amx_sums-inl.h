// The two gemms of attention with AMX (amx.h), for one or two blocks of 16 rows: queries times
// keys, and probs times values. Included once per target, after hwy/foreach_target.h.
#if defined(QUIRE_KERNELS_CPU_ATTENTION_AMX_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_ATTENTION_AMX_PRODUCTS_INL_H_
#undef QUIRE_KERNELS_CPU_ATTENTION_AMX_PRODUCTS_INL_H_
#else
#define QUIRE_KERNELS_CPU_ATTENTION_AMX_PRODUCTS_INL_H_
#endif

#include "kernels/cpu/attention/blocks-inl.h"
#include "kernels/cpu/attention/softmax-inl.h"
#include "kernels/cpu/runtime/amx.h"

#if QUIRE_ATTENTION_AMX

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

static_assert(kKeyStripe == 2 * kKeyGroup && kKeyGroup == kAmxRows && kStripePairs == kAmxRows &&
              kBlockRows == kAmxRows);

// scores[key][row] of one stripe of `keys`, kScoreStride apart. queries: [kBlocks, head_dim / 2,
// 16], pairs of elements.
template <int kBlocks>
HWY_INLINE void ScoreStripe(const float* queries, int64_t head_dim, const TileRows<BFloat16>& keys,
                            int64_t stripe, float* scores) {
  const BFloat16* upper = keys.groups[2 * stripe];
  const BFloat16* lower = keys.groups[2 * stripe + 1];
  const int64_t key_bytes = keys.stride * static_cast<int64_t>(sizeof(BFloat16));
  constexpr int64_t kScoreBytes = kScoreStride * sizeof(float);
  AmxZero<0>();
  AmxZero<1>();
  if constexpr (kBlocks == 2) {
    AmxZero<2>();
    AmxZero<3>();
  }
  for (int64_t i = 0; i < head_dim; i += 2 * kAmxColumns, queries += kAmxRows * kAmxColumns) {
    AmxLoad<4>(upper + i, key_bytes);
    AmxLoad<6>(queries, kAmxRowBytes);
    AmxMulAdd<0, 4, 6>();
    AmxLoad<5>(lower + i, key_bytes);
    AmxMulAdd<1, 5, 6>();
    if constexpr (kBlocks == 2) {
      AmxLoad<7>(queries + head_dim / 2 * kAmxColumns, kAmxRowBytes);
      AmxMulAdd<2, 4, 7>();
      AmxMulAdd<3, 5, 7>();
    }
  }
  AmxStore<0>(scores, kScoreBytes);
  AmxStore<1>(scores + kKeyGroup * kScoreStride, kScoreBytes);
  if constexpr (kBlocks == 2) {
    AmxStore<2>(scores + kBlockRows, kScoreBytes);
    AmxStore<3>(scores + kKeyGroup * kScoreStride + kBlockRows, kScoreBytes);
  }
}

// out[row][element] += probs times values over stripes [first, last). probs: [kBlocks * 16,
// kTilePairs]; values: [kTilePairs, head_dim]; pairs of keys.
template <int kBlocks>
HWY_INLINE void AddValueStripes(const float* probs, const float* values, int64_t first,
                                int64_t last, int64_t head_dim, float* out) {
  const int64_t row_bytes = head_dim * static_cast<int64_t>(sizeof(float));
  constexpr int64_t kProbBytes = kTilePairs * sizeof(float);
  for (int64_t i = 0; i < head_dim; i += 2 * kAmxColumns) {
    float* upper = out + i;
    float* lower = upper + kAmxRows * head_dim;
    AmxLoad<0>(upper, row_bytes);
    AmxLoad<1>(upper + kAmxColumns, row_bytes);
    if constexpr (kBlocks == 2) {
      AmxLoad<2>(lower, row_bytes);
      AmxLoad<3>(lower + kAmxColumns, row_bytes);
    }
    for (int64_t pair = first * kStripePairs; pair < last * kStripePairs; pair += kStripePairs) {
      AmxLoad<4>(probs + pair, kProbBytes);
      AmxLoad<6>(values + pair * head_dim + i, row_bytes);
      AmxMulAdd<0, 4, 6>();
      AmxLoad<7>(values + pair * head_dim + i + kAmxColumns, row_bytes);
      AmxMulAdd<1, 4, 7>();
      if constexpr (kBlocks == 2) {
        AmxLoad<5>(probs + kAmxRows * kTilePairs + pair, kProbBytes);
        AmxMulAdd<2, 5, 6>();
        AmxMulAdd<3, 5, 7>();
      }
    }
    AmxStore<0>(upper, row_bytes);
    AmxStore<1>(upper + kAmxColumns, row_bytes);
    if constexpr (kBlocks == 2) {
      AmxStore<2>(lower, row_bytes);
      AmxStore<3>(lower + kAmxColumns, row_bytes);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_ATTENTION_AMX

#endif  // QUIRE_KERNELS_CPU_ATTENTION_AMX_PRODUCTS_INL_H_
