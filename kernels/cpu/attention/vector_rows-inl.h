// Attention of one tile with vectors: scores and sums of values are chains of multiply-adds in
// float32, the same for a row whatever is computed with it. Included once per target, after
// hwy/foreach_target.h.
#if defined(QUIRE_KERNELS_CPU_ATTENTION_VECTORS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef QUIRE_KERNELS_CPU_ATTENTION_VECTORS_INL_H_
#undef QUIRE_KERNELS_CPU_ATTENTION_VECTORS_INL_H_
#else
#define QUIRE_KERNELS_CPU_ATTENTION_VECTORS_INL_H_
#endif

#include <algorithm>

#include "kernels/cpu/attention/blocks-inl.h"
#include "kernels/cpu/attention/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

// The rows of an AttentionTile, whose queries the constructor loads; T is the cache's element.
template <typename T>
class VectorRows {
 public:
  VectorRows(const AttentionTile& tile, AttentionScratch& scratch)
      : scratch_(scratch),
        head_dim_(tile.geometry->k_head_dim),
        padded_dim_(PaddedHeadDim(head_dim_)),
        num_rows_(tile.num_rows()),
        cap_(ScoreCap(*tile.geometry)) {
    if (tile.args->q.dtype() == DType::kF32) {
      LoadQueries<float>(tile, scratch.queries);
    } else {
      LoadQueries<BFloat16>(tile, scratch.queries);
    }
  }

  // Begins the state of a split.
  void Begin(const AttentionState& state) {
    state_ = state;
    std::fill_n(state_.out, num_rows_ * padded_dim_, 0.0f);
    std::fill_n(state_.max, num_rows_, kMinusInfinity);
    std::fill_n(scratch_.lane_sums, num_rows_ * kLanes, 0.0f);
  }

  // Adds a tile of keys to it; meanwhile fetches those of `next`.
  void Attend(const KeyTile<T>& keys, const KeyTile<T>& next) {
    Score(keys, next);
    for (int64_t r = 0; r < num_rows_; ++r) {
      if (keys.row_begin[r] < keys.row_end[r]) SoftmaxRow(r, keys.row_begin[r], keys.row_end[r]);
    }
    if constexpr (!kIsWidened) {
      if (num_rows_ < kMinRowsToWiden && head_dim_ % kLanes == 0) {
        AddValues<T>(keys, keys.v, &next.v);
        return;
      }
    }
    AddValues<float>(keys, Widen(keys.v, next.v, keys.begin, keys.end), nullptr);
  }

  // The state is complete.
  void End() {
    for (int64_t r = 0; r < num_rows_; ++r) {
      state_.sum[r] = SumOfLanes(hn::LoadU(F32(), scratch_.lane_sums + r * kLanes));
    }
  }

 private:
  // Elements of 8 bits are widened once for all rows.
  static constexpr bool kIsWidened = sizeof(T) == 1;

  void Score(const KeyTile<T>& keys, const KeyTile<T>& next) {
    const int64_t begin = keys.begin / kKeyStripe * kKeyStripe;
    const int64_t end = RoundUp(keys.end, kKeyStripe);
    if constexpr (kIsWidened) {
      const TileRows<float> wide = Widen(keys.k, next.k, begin, end);
      ScoreStripes(wide, wide, begin, end);
    } else {
      ScoreStripes(keys.k, next.k, begin, end);
    }
  }

  template <typename K>
  void ScoreStripes(const TileRows<K>& k, const TileRows<K>& next_k, int64_t begin, int64_t end) {
    if (num_rows_ <= kFewRows) {
      for (int64_t key = begin; key < end; key += 2 * kLanes) {
        ForOneRowBlock<kFewRows>(num_rows_, 0, [&](auto rows, int64_t) HWY_ATTR {
          ScoreKeys<K, rows>(scratch_.queries, head_dim_, k, next_k, key, scratch_.scores + key);
        });
      }
      return;
    }
    for (int64_t key = begin; key < end; key += kLanes) {
      TransposeKeys(k.Row(key), next_k.Row(key), k.stride, head_dim_ / kElementsPerWord<K>,
                    scratch_.keys + key);
    }
    for (int64_t key = begin; key < end; key += 2 * kLanes) {
      ForRowBlocks<kScoreRows>(num_rows_, [&](auto rows, int64_t row) HWY_ATTR {
        ScoreColumns<K, rows>(scratch_.queries + row * head_dim_, head_dim_, scratch_.keys + key,
                              scratch_.scores + row * kKeyTile + key);
      });
    }
  }

  // Turns the logits of keys [begin, end) of a row into probs relative to the row's maximum, and
  // rescales what the row has summed up so far when the maximum grows.
  void SoftmaxRow(int64_t row, int64_t begin, int64_t end) {
    const F32 d;
    float* scores = scratch_.scores + row * kKeyTile;
    const int64_t first = begin / kLanes * kLanes;
    VF32 max = hn::Set(d, kMinusInfinity);
    for (int64_t key = first; key < end; key += kLanes) {
      VF32 logits = hn::LoadU(d, scores + key);
      if (cap_ > 0) logits = hn::Mul(hn::Set(d, cap_), Tanh(logits));
      if (key < begin || key + kLanes > end) {
        const VF32 index = hn::Iota(d, static_cast<float>(key));
        const auto visible = hn::And(hn::Ge(index, hn::Set(d, static_cast<float>(begin))),
                                     hn::Lt(index, hn::Set(d, static_cast<float>(end))));
        logits = hn::IfThenElse(visible, logits, hn::Set(d, kMinusInfinity));
      }
      hn::StoreU(logits, d, scores + key);
      max = hn::Max(max, logits);
    }
    const float old_max = state_.max[row];
    const float new_max = std::max(old_max, hn::GetLane(hn::MaxOfLanes(d, max)));
    float* lane_sums = scratch_.lane_sums + row * kLanes;
    VF32 sum = hn::LoadU(d, lane_sums);
    if (new_max > old_max) {
      state_.max[row] = new_max;
      const VF32 scale = Exp2(hn::Set(d, old_max - new_max));
      sum = hn::Mul(sum, scale);
      float* out = state_.out + row * padded_dim_;
      for (int64_t i = 0; i < padded_dim_; i += kLanes) {
        hn::StoreU(hn::Mul(hn::LoadU(d, out + i), scale), d, out + i);
      }
    }
    for (int64_t key = first; key < end; key += kLanes) {
      const VF32 probs = Exp2(hn::Sub(hn::LoadU(d, scores + key), hn::Set(d, new_max)));
      hn::StoreU(probs, d, scores + key);
      sum = hn::Add(sum, probs);
    }
    hn::StoreU(sum, d, lane_sums);
  }

  // In float32, until the next call.
  TileRows<float> Widen(const TileRows<T>& from, const TileRows<T>& next, int64_t begin,
                        int64_t end) {
    return WidenRows(from, next, begin, end, head_dim_, scratch_.values);
  }

  // A row never touches the value of a key that it does not see: the rows of a block share the keys
  // that all of them see, and each row takes its other keys by itself.
  template <typename V>
  void AddValues(const KeyTile<T>& keys, const TileRows<V>& v, const TileRows<V>* next_v) {
    const int64_t* row_begin = keys.row_begin;
    const int64_t* row_end = keys.row_end;
    ForRowBlocks<kValueRows>(num_rows_, [&](auto rows, int64_t row) HWY_ATTR {
      const int64_t begin = *std::max_element(row_begin + row, row_begin + row + rows);
      const int64_t end = *std::min_element(row_end + row, row_end + row + rows);
      if (begin >= end) {
        for (int64_t r = row; r < row + rows; ++r)
          AddRows<1>(v, next_v, r, row_begin[r], row_end[r]);
        return;
      }
      for (int64_t r = row; r < row + rows; ++r) AddRows<1>(v, next_v, r, row_begin[r], begin);
      AddRows<rows>(v, next_v, row, begin, end);
      for (int64_t r = row; r < row + rows; ++r) AddRows<1>(v, next_v, r, end, row_end[r]);
    });
  }

  template <int kRows, typename V>
  void AddRows(const TileRows<V>& v, const TileRows<V>* next_v, int64_t row, int64_t begin,
               int64_t end) {
    if (begin >= end) return;
    const float* probs = scratch_.scores + row * kKeyTile;
    float* out = state_.out + row * padded_dim_;
    int64_t column = 0;
    for (; column + kValueVectors * kLanes <= head_dim_; column += kValueVectors * kLanes) {
      AddValueColumns<V, kRows, kValueVectors>(probs, v, next_v, begin, end, column, out,
                                               padded_dim_);
    }
    for (; column < head_dim_; column += kLanes) {
      AddValueColumns<V, kRows, 1>(probs, v, next_v, begin, end, column, out, padded_dim_);
    }
  }

  AttentionScratch& scratch_;
  const int64_t head_dim_;
  const int64_t padded_dim_;
  const int64_t num_rows_;
  const float cap_;       // of logits in base 2; 0: none
  AttentionState state_;  // of the split at hand
};

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#endif  // QUIRE_KERNELS_CPU_ATTENTION_VECTORS_INL_H_
