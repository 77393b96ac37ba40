// Softmax of 16 rows whose scores lie by keys, so that a row is a lane: nothing is ever summed or
// compared across lanes. Probabilities are rounded to bfloat16 for the gemm with V, their sum is
// of what they were before. Keys that a row does not see weigh nothing and add zeros, so they
// change no bit. Included once per target, after hwy/foreach_target.h.
#if defined(QUIRE_KERNELS_CPU_ATTENTION_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_ATTENTION_SOFTMAX_INL_H_
#undef QUIRE_KERNELS_CPU_ATTENTION_SOFTMAX_INL_H_
#else
#define QUIRE_KERNELS_CPU_ATTENTION_SOFTMAX_INL_H_
#endif

#include "kernels/cpu/attention/blocks-inl.h"
#include "kernels/cpu/attention/scores-inl.h"

// Targets of sixteen lanes, which processors with AMX have.
#define QUIRE_ATTENTION_AMX (HWY_ARCH_X86_64 && HWY_MAX_BYTES == 64)

#if QUIRE_ATTENTION_AMX

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

constexpr int64_t kBlockRows = 16;
constexpr int64_t kScoreStride = 2 * kBlockRows;  // two blocks' scores lie side by side
constexpr int64_t kTilePairs = kKeyTile / 2;      // pairs of keys of a tile
constexpr int64_t kStripePairs = kKeyStripe / 2;  // and of a stripe

// Which keys of a tile the rows see: [begin, end), of each lane.
struct LaneKeys {
  alignas(64) float begin[kBlockRows] = {};
  alignas(64) float end[kBlockRows] = {};
};

class BlockSoftmax {
 public:
  // scores: [kKeyTile, kScoreStride], of which 16 columns are this block's; probs: [16,
  // kTilePairs], pairs of bfloat16; state: of the block's rows.
  BlockSoftmax(float* scores, float* probs, const AttentionState& state, int64_t head_dim)
      : scores_(scores), probs_(probs), state_(state), head_dim_(head_dim) {}

  // Turns the scores of keys [begin, end), whole stripes, into probs relative to each row's
  // maximum, and rescales what the rows have summed up so far where that grows.
  void Run(int64_t begin, int64_t end, const LaneKeys& keys, float scale, float cap) {
    const F32 d;
    const VF32 old_max = hn::LoadU(d, state_.max);
    const VF32 max = hn::Max(old_max, Logits(begin, end, keys, scale, cap));
    hn::StoreU(max, d, state_.max);
    // A row that has seen nothing yet has probs 2^(-infinity - 0).
    const VF32 base = hn::IfThenElseZero(hn::Gt(max, hn::Set(d, kMinusInfinity)), max);
    VF32 sum = hn::LoadU(d, state_.sum);
    if (!hn::AllTrue(d, hn::Eq(max, old_max))) {
      const VF32 factor = Exp2(hn::Sub(old_max, base));
      sum = hn::Mul(sum, factor);
      Rescale(old_max, max, factor);
    }
    hn::StoreU(Weigh(begin, end, base, sum), d, state_.sum);
  }

 private:
  // Makes base-2 logits of scores, -infinity where a row does not see a key; returns the largest.
  VF32 Logits(int64_t begin, int64_t end, const LaneKeys& keys, float scale, float cap) const {
    const F32 d;
    const VF32 first = hn::Load(d, keys.begin);
    const VF32 last = hn::Load(d, keys.end);
    const bool all_seen = hn::AllTrue(d, hn::Le(first, hn::Set(d, static_cast<float>(begin)))) &&
                          hn::AllTrue(d, hn::Ge(last, hn::Set(d, static_cast<float>(end))));
    VF32 max = hn::Set(d, kMinusInfinity);
    for (int64_t key = begin; key < end; ++key) {
      float* scores = scores_ + key * kScoreStride;
      VF32 logits = hn::Mul(hn::LoadU(d, scores), hn::Set(d, scale));
      if (cap > 0) logits = hn::Mul(hn::Set(d, cap), Tanh(logits));
      if (!all_seen) {
        const VF32 index = hn::Set(d, static_cast<float>(key));
        const auto seen = hn::And(hn::Ge(index, first), hn::Lt(index, last));
        logits = hn::IfThenElse(seen, logits, hn::Set(d, kMinusInfinity));
      }
      hn::StoreU(logits, d, scores);
      max = hn::Max(max, logits);
    }
    return max;
  }

  void Rescale(VF32 old_max, VF32 max, VF32 factor) const {
    const F32 d;
    alignas(64) float before[kBlockRows], after[kBlockRows], factors[kBlockRows];
    hn::Store(old_max, d, before);
    hn::Store(max, d, after);
    hn::Store(factor, d, factors);
    for (int64_t r = 0; r < kBlockRows; ++r) {
      if (before[r] == after[r] || before[r] == kMinusInfinity) continue;  // or all zeros
      float* row = state_.out + r * head_dim_;
      for (int64_t i = 0; i < head_dim_; i += kLanes) {
        hn::StoreU(hn::Mul(hn::LoadU(d, row + i), hn::Set(d, factors[r])), d, row + i);
      }
    }
  }

  // Writes the probs of logits; returns `sum` and the probs added to it, one after the other.
  VF32 Weigh(int64_t begin, int64_t end, VF32 base, VF32 sum) const {
    const F32 d;
    const hn::RebindToUnsigned<F32> d32;
    const auto prob = [&](int64_t key) HWY_ATTR {
      return Exp2(hn::Sub(hn::LoadU(d, scores_ + key * kScoreStride), base));
    };
    // To the nearest, of a prob from 0 to 1; the bits below are left.
    const auto rounded = [&](VF32 v) HWY_ATTR {
      return hn::Add(hn::BitCast(d32, v), hn::Set(d32, 0x8000u));
    };
    alignas(64) float pairs[kStripePairs * kBlockRows];  // [pair][row]
    for (int64_t stripe = begin; stripe < end; stripe += kKeyStripe) {
      for (int64_t pair = 0; pair < kStripePairs; ++pair) {
        const VF32 first = prob(stripe + 2 * pair);
        const VF32 second = prob(stripe + 2 * pair + 1);
        sum = hn::Add(hn::Add(sum, first), second);
        const auto high = hn::And(rounded(second), hn::Set(d32, 0xffff0000u));
        hn::Store(hn::BitCast(d, hn::Or(hn::ShiftRight<16>(rounded(first)), high)), d,
                  pairs + pair * kBlockRows);
      }
      for (int64_t row = 0; row < kBlockRows; row += 4) {
        StoreColumns(LoadColumns<float>(pairs, kBlockRows, row),
                     probs_ + row * kTilePairs + stripe / 2, kTilePairs);
      }
    }
    return sum;
  }

  float* const scores_;
  float* const probs_;
  const AttentionState state_;
  const int64_t head_dim_;
};

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_ATTENTION_AMX

#endif  // QUIRE_KERNELS_CPU_ATTENTION_SOFTMAX_INL_H_
