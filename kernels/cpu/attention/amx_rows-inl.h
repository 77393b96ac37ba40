// Attention of one tile of bfloat16 queries, keys and values with AMX (amx.h), 16 rows at a time.
// Scores are K times Q transposed, so that keys are read as they lie in the cache; probs times V
// takes V in pairs of keys. Every sum is one chain of sums of 32 elements, or keys, in ascending
// order, whatever else is computed with a row. Included once per target, after
// hwy/foreach_target.h.
#if defined(QUIRE_KERNELS_CPU_ATTENTION_AMX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_ATTENTION_AMX_INL_H_
#undef QUIRE_KERNELS_CPU_ATTENTION_AMX_INL_H_
#else
#define QUIRE_KERNELS_CPU_ATTENTION_AMX_INL_H_
#endif

#include <algorithm>
#include <cstring>

#include "kernels/cpu/attention/amx_sums-inl.h"
#include "kernels/cpu/attention/blocks-inl.h"
#include "kernels/cpu/attention/scores-inl.h"
#include "kernels/cpu/attention/softmax-inl.h"
#include "kernels/cpu/runtime/amx.h"

#if QUIRE_ATTENTION_AMX

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

// The rows of an AttentionTile, whose queries the constructor loads. Rows that fill up the last
// block are computed too, and mean nothing.
class AmxRows {
 public:
  AmxRows(const AttentionTile& tile, AttentionScratch& scratch)
      : head_dim_(tile.geometry->k_head_dim),
        num_words_(head_dim_ / 2),
        num_rows_(tile.num_rows()),
        num_blocks_(CeilDiv(num_rows_, kBlockRows)),
        cap_(ScoreCap(*tile.geometry)),
        scale_(ScoreScale(*tile.geometry)),
        queries_(scratch.queries + kMaxQueryRows * num_words_),
        scores_(scratch.scores),
        probs_(scratch.keys),
        values_(scratch.values),
        blocks_state_(scratch.split.state()) {
    TransposeQueries(tile, scratch.queries);
    AmxConfigure(AmxConfiguration());
  }
  ~AmxRows() { AmxRelease(); }
  AmxRows(const AmxRows&) = delete;
  AmxRows& operator=(const AmxRows&) = delete;

  // Begins the state of a split. Meanwhile it lies in the scratch, in whole blocks.
  void Begin(const AttentionState& state) {
    state_ = state;
    std::fill_n(blocks_state_.out, num_blocks_ * kBlockRows * head_dim_, 0.0f);
    std::fill_n(blocks_state_.max, num_blocks_ * kBlockRows, kMinusInfinity);
    std::fill_n(blocks_state_.sum, num_blocks_ * kBlockRows, 0.0f);
  }

  // Adds a tile of keys to it; meanwhile fetches those of `next`.
  void Attend(const KeyTile<BFloat16>& keys, const KeyTile<BFloat16>& next) {
    int64_t block = 0;
    for (; block + 2 <= num_blocks_; block += 2) AttendBlocks<2>(keys, next, block);
    if (block < num_blocks_) AttendBlocks<1>(keys, next, block);
  }

  // The state is complete.
  void End() {
    if (state_.out == blocks_state_.out) return;
    std::copy_n(blocks_state_.out, num_rows_ * head_dim_, state_.out);
    std::copy_n(blocks_state_.max, num_rows_, state_.max);
    std::copy_n(blocks_state_.sum, num_rows_, state_.sum);
  }

 private:
  // Queries by blocks of 16 rows, transposed in pairs of elements: queries_[block][pair][row].
  void TransposeQueries(const AttentionTile& tile, float* memory) {
    auto* rows = reinterpret_cast<BFloat16*>(memory);
    const Tensor& q = tile.args->q;
    const int64_t token_size = tile.group_size() * head_dim_;
    for (int64_t i = 0; i < tile.num_queries; ++i) {
      std::memcpy(
          rows + i * token_size,
          q.as<BFloat16>() + (tile.first_token + i) * q.row_stride() + tile.kv_head * token_size,
          token_size * sizeof(BFloat16));
    }
    const int64_t num_elements = tile.num_queries * token_size;
    std::memset(rows + num_elements, 0,
                (num_blocks_ * kBlockRows * head_dim_ - num_elements) * sizeof(BFloat16));
    for (int64_t block = 0; block < num_blocks_; ++block) {
      float* to = queries_ + block * num_words_ * kBlockRows;
      for (int64_t word = 0; word < num_words_; word += 4, to += 4 * kBlockRows) {
        StoreColumns(LoadColumns(rows + block * kBlockRows * head_dim_, head_dim_, word), to,
                     kBlockRows);
      }
    }
  }

  template <int kBlocks>
  void AttendBlocks(const KeyTile<BFloat16>& keys, const KeyTile<BFloat16>& next, int64_t block) {
    const int64_t first = keys.begin / kKeyStripe;
    const int64_t last = CeilDiv(keys.end, kKeyStripe);
    for (int64_t stripe = first; stripe < last; ++stripe) {
      ScoreStripe<kBlocks>(queries_ + block * num_words_ * kBlockRows, head_dim_, keys.k, stripe,
                           scores_ + stripe * kKeyStripe * kScoreStride);
      if (block == 0) PairValues(keys, stripe, next);
    }
    for (int64_t i = 0; i < kBlocks; ++i) {
      const int64_t row = (block + i) * kBlockRows;
      LaneKeys lanes;
      for (int64_t r = row; r < std::min(row + kBlockRows, num_rows_); ++r) {
        lanes.begin[r - row] = static_cast<float>(keys.row_begin[r]);
        lanes.end[r - row] = static_cast<float>(keys.row_end[r]);
      }
      BlockSoftmax(scores_ + i * kBlockRows, probs_ + i * kBlockRows * kTilePairs,
                   blocks_state_.FromRow(row, head_dim_), head_dim_)
          .Run(first * kKeyStripe, last * kKeyStripe, lanes, scale_, cap_);
    }
    AddValueStripes<kBlocks>(probs_, values_, first, last, head_dim_,
                             blocks_state_.out + block * kBlockRows * head_dim_);
  }

  // A stripe of values in pairs of keys, values_[pair][element]; zeros for keys that no row sees,
  // where anything may lie. Fetches the stripe of `next` in whole rows: one line of each row after
  // the other made decode a tenth slower.
  void PairValues(const KeyTile<BFloat16>& keys, int64_t stripe, const KeyTile<BFloat16>& next) {
    const F32 d;
    const hn::RebindToUnsigned<F32> d32;
    alignas(64) static constexpr uint16_t kZeros[kMaxHeadDim] = {};
    const auto row = [&](int64_t key) {
      return key >= keys.begin && key < keys.end ? keys.v.Row(key)
                                                 : reinterpret_cast<const BFloat16*>(kZeros);
    };
    for (int64_t key = stripe * kKeyStripe; key < (stripe + 1) * kKeyStripe; key += 2) {
      for (const int64_t each : {key, key + 1}) {
        FetchRow(next.k.Row(each), head_dim_);
        FetchRow(next.v.Row(each), head_dim_);
      }
      const BFloat16* first = row(key);
      const BFloat16* second = row(key + 1);
      float* to = values_ + key / 2 * head_dim_;
      for (int64_t i = 0; i < head_dim_; i += kLanes) {
        const auto low = hn::ShiftRight<16>(hn::BitCast(d32, LoadF32(first + i)));
        const auto high = hn::BitCast(d32, LoadF32(second + i));
        hn::StoreU(hn::BitCast(d, hn::Or(low, high)), d, to + i);
      }
    }
  }

  const int64_t head_dim_;
  const int64_t num_words_;  // pairs of elements of a query
  const int64_t num_rows_;
  const int64_t num_blocks_;  // of 16 rows
  const float cap_;           // of logits in base 2; 0: none
  const float scale_;         // of scores
  float* const queries_;      // [num_blocks, num_words, 16]
  float* const scores_;       // [kKeyTile, kScoreStride]
  float* const probs_;        // [kScoreStride, kTilePairs], pairs of bfloat16
  float* const values_;       // [kTilePairs, head_dim], pairs of bfloat16
  const AttentionState blocks_state_;
  AttentionState state_;  // where the split at hand is to go
};

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_ATTENTION_AMX

#endif  // QUIRE_KERNELS_CPU_ATTENTION_AMX_INL_H_
