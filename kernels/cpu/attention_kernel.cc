#include "kernels/cpu/attention_kernel.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_kernel.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/attention_blocks-inl.h"
#include "kernels/cpu/attention_scores-inl.h"
#include "kernels/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quire::cpu {
namespace HWY_NAMESPACE {

// total = total + part, row by row.
void FoldState(const AttentionState& part, int64_t num_rows, int64_t padded_dim,
               const AttentionState& total) {
  const F32 d;
  for (int64_t r = 0; r < num_rows; ++r) {
    if (part.max[r] == kMinusInfinity) continue;
    const float max = std::max(total.max[r], part.max[r]);
    const float total_scale = Exp2Scalar(total.max[r] - max);
    const float part_scale = Exp2Scalar(part.max[r] - max);
    total.max[r] = max;
    total.sum[r] = total.sum[r] * total_scale + part.sum[r] * part_scale;
    const float* from = part.out + r * padded_dim;
    float* out = total.out + r * padded_dim;
    for (int64_t i = 0; i < padded_dim; i += kLanes) {
      const VF32 scaled = hn::Mul(hn::LoadU(d, out + i), hn::Set(d, total_scale));
      hn::StoreU(hn::MulAdd(hn::LoadU(d, from + i), hn::Set(d, part_scale), scaled), d, out + i);
    }
  }
}

// One tile; T is the cache's element.
template <typename T>
class TileKernel {
 public:
  TileKernel(const AttentionTile& tile, const AttentionTile* next, AttentionScratch& scratch)
      : tile_(tile),
        next_(next),
        scratch_(scratch),
        kv_(tile.args->kv_cache),
        head_dim_(tile.geometry->head_dim),
        padded_dim_(PaddedHeadDim(head_dim_)),
        group_size_(tile.geometry->num_q_heads / tile.geometry->num_kv_heads),
        num_rows_(tile.num_queries * group_size_),
        range_(KeysOf(tile)) {}

  // Leaves each split's state in the partials, or folds it into the scratch's total.
  void Attend() {
    const int64_t window = tile_.geometry->sliding_window;
    for (int64_t r = 0; r < num_rows_; ++r) {
      visible_[r] = VisibleKeys(tile_.first_position + r / group_size_, window);
    }
    if (!range_.empty()) LocateKeys(tile_, range_, range_.begin / kKeyTile * kKeyTile, *keys_);
    for (int64_t split = tile_.first_split; split < tile_.end_split; ++split) {
      const int64_t partial_row = (split - tile_.first_split) * tile_.partial_stride;
      state_ = tile_.partials.out != nullptr ? tile_.partials.FromRow(partial_row, padded_dim_)
                                             : scratch_.split.state();
      AttendSplit(split * kKeySplit);
      if (tile_.partials.out == nullptr) {
        FoldState(state_, num_rows_, padded_dim_, scratch_.total.state());
      }
    }
  }

 private:
  struct TileKeys {
    TileRows<T> k;
    TileRows<T> v;
  };

  void AttendSplit(int64_t split_begin) {
    std::fill_n(state_.out, num_rows_ * padded_dim_, 0.0f);
    std::fill_n(state_.max, num_rows_, kMinusInfinity);
    std::fill_n(scratch_.lane_sums, num_rows_ * kLanes, 0.0f);
    const int64_t begin = std::max(range_.begin, split_begin);
    const int64_t end = std::min(range_.end, split_begin + kKeySplit);
    for (int64_t key_tile = begin / kKeyTile * kKeyTile; key_tile < end; key_tile += kKeyTile) {
      // While one tile of keys is computed, the rows of the one after it are fetched.
      const bool has_next = LocateNextKeys(key_tile + kKeyTile);
      AttendKeys(key_tile, has_next ? *next_keys_ : *keys_);
      std::swap(keys_, next_keys_);
    }
    for (int64_t r = 0; r < num_rows_; ++r) {
      state_.sum[r] = SumOfLanes(hn::LoadU(F32(), scratch_.lane_sums + r * kLanes));
    }
  }

  // What is to be fetched while the keys before `key_tile` are computed; false: nothing.
  bool LocateNextKeys(int64_t key_tile) {
    if (key_tile < range_.end) {
      LocateKeys(tile_, range_, key_tile, *next_keys_);
      return true;
    }
    if (next_ == nullptr) return false;
    const KeyRange range = KeysOf(*next_);
    if (range.empty()) return false;
    LocateKeys(*next_, range, range.begin / kKeyTile * kKeyTile, *next_keys_);
    return true;
  }

  // Visible keys of the tile at position `key_tile`, which *keys_ holds.
  void AttendKeys(int64_t key_tile, const TileKeys& next_keys) {
    const int64_t begin = std::max(range_.begin - key_tile, int64_t{0});
    const int64_t end = std::min(range_.end - key_tile, kKeyTile);
    Score(begin / kKeyStripe * kKeyStripe, RoundUp(end, kKeyStripe), next_keys.k);
    for (int64_t r = 0; r < num_rows_; ++r) {
      row_begin_[r] = std::max(visible_[r].begin - key_tile, begin);
      row_end_[r] = std::min(visible_[r].end - key_tile, end);
      if (row_begin_[r] < row_end_[r]) SoftmaxRow(r, row_begin_[r], row_end_[r]);
    }
    if (num_rows_ >= kMinRowsToWiden || head_dim_ % kLanes != 0) {
      AddValues<float>(WidenValues(begin, end, next_keys.v), nullptr);
    } else {
      AddValues<T>(keys_->v, &next_keys.v);
    }
  }

  void Score(int64_t begin, int64_t end, const TileRows<T>& next_keys) {
    if (num_rows_ <= kFewRows) {
      for (int64_t key = begin; key < end; key += 2 * kLanes) {
        ForOneRowBlock<kFewRows>(num_rows_, 0, [&](auto rows, int64_t) HWY_ATTR {
          ScoreKeys<T, rows>(scratch_.queries, head_dim_, keys_->k, next_keys, key,
                             scratch_.scores + key);
        });
      }
      return;
    }
    for (int64_t key = begin; key < end; key += kLanes) {
      TransposeKeys(keys_->k.Row(key), next_keys.Row(key), kv_.token_stride,
                    head_dim_ / kElementsPerWord<T>, scratch_.keys + key);
    }
    for (int64_t key = begin; key < end; key += 2 * kLanes) {
      ForRowBlocks<kScoreRows>(num_rows_, [&](auto rows, int64_t row) HWY_ATTR {
        ScoreColumns<T, rows>(scratch_.queries + row * head_dim_, head_dim_, scratch_.keys + key,
                              scratch_.scores + row * kKeyTile + key);
      });
    }
  }

  // Finds the groups of a tile of keys that hold visible ones (in `range`); whole, because a block
  // does. The others repeat the first one, to be read as harmlessly.
  void LocateKeys(const AttentionTile& tile, const KeyRange& range, int64_t key_tile,
                  TileKeys& keys) const {
    const int64_t first = (std::max(range.begin - key_tile, int64_t{0})) / kKeyGroup;
    const int64_t last = CeilDiv(std::min(range.end - key_tile, kKeyTile), kKeyGroup);
    for (int64_t group = first; group < last; ++group) {
      const int64_t position = key_tile + group * kKeyGroup;
      const int64_t block = tile.blocks[position / kv_.block_size];
      CHECK_GE(block, 0) << "no block at position " << position;
      const int64_t offset = block * kv_.block_stride +
                             position % kv_.block_size * kv_.token_stride +
                             tile.kv_head * kv_.head_stride;
      keys.k.groups[group] = static_cast<const T*>(kv_.k) + offset;
      keys.v.groups[group] = static_cast<const T*>(kv_.v) + offset;
    }
    for (TileRows<T>* rows : {&keys.k, &keys.v}) {
      rows->stride = kv_.token_stride;
      std::fill(std::begin(rows->groups), rows->groups + first, rows->groups[first]);
      std::fill(rows->groups + last, std::end(rows->groups), rows->groups[first]);
    }
  }

  // Turns the logits of keys [begin, end) of a row into weights relative to the row's maximum, and
  // rescales what the row has summed up so far when the maximum grows.
  void SoftmaxRow(int64_t row, int64_t begin, int64_t end) {
    const F32 d;
    float* scores = scratch_.scores + row * kKeyTile;
    const int64_t first = begin / kLanes * kLanes;
    const float cap = tile_.geometry->soft_cap * kLog2E;
    VF32 max = hn::Set(d, kMinusInfinity);
    for (int64_t key = first; key < end; key += kLanes) {
      VF32 logits = hn::LoadU(d, scores + key);
      if (cap > 0) logits = hn::Mul(hn::Set(d, cap), Tanh(logits));
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
      const VF32 weights = Exp2(hn::Sub(hn::LoadU(d, scores + key), hn::Set(d, new_max)));
      hn::StoreU(weights, d, scores + key);
      sum = hn::Add(sum, weights);
    }
    hn::StoreU(sum, d, lane_sums);
  }

  // V of keys [begin, end) in float32.
  TileRows<float> WidenValues(int64_t begin, int64_t end, const TileRows<T>& next_v) {
    for (int64_t key = begin; key < end; ++key) {
      FetchRow(next_v.Row(key), head_dim_);
      const T* row = keys_->v.Row(key);
      float* wide = scratch_.values + key * padded_dim_;
      for (int64_t i = 0; i < head_dim_; i += kLanes) {
        StoreF32(LoadF32(row + i, head_dim_ - i), wide + i);
      }
    }
    TileRows<float> rows;
    rows.stride = padded_dim_;
    for (int64_t group = 0; group < kKeyTile / kKeyGroup; ++group) {
      rows.groups[group] = scratch_.values + group * kKeyGroup * padded_dim_;
    }
    return rows;
  }

  // A row never touches the value of a key that it does not see: rows of a block share the keys
  // that all of them see, and take the others alone.
  template <typename V>
  void AddValues(const TileRows<V>& v, const TileRows<V>* next_v) {
    ForRowBlocks<kValueRows>(num_rows_, [&](auto rows, int64_t row) HWY_ATTR {
      const int64_t begin = *std::max_element(row_begin_ + row, row_begin_ + row + rows);
      const int64_t end = *std::min_element(row_end_ + row, row_end_ + row + rows);
      if (begin >= end) {
        for (int64_t r = row; r < row + rows; ++r)
          AddRows<1>(v, next_v, r, row_begin_[r], row_end_[r]);
        return;
      }
      for (int64_t r = row; r < row + rows; ++r) AddRows<1>(v, next_v, r, row_begin_[r], begin);
      AddRows<rows>(v, next_v, row, begin, end);
      for (int64_t r = row; r < row + rows; ++r) AddRows<1>(v, next_v, r, end, row_end_[r]);
    });
  }

  template <int kRows, typename V>
  void AddRows(const TileRows<V>& v, const TileRows<V>* next_v, int64_t row, int64_t begin,
               int64_t end) {
    if (begin >= end) return;
    const float* weights = scratch_.scores + row * kKeyTile;
    float* out = state_.out + row * padded_dim_;
    int64_t column = 0;
    for (; column + kValueVectors * kLanes <= head_dim_; column += kValueVectors * kLanes) {
      AddValueColumns<V, kRows, kValueVectors>(weights, v, next_v, begin, end, column, out,
                                               padded_dim_);
    }
    for (; column < head_dim_; column += kLanes) {
      AddValueColumns<V, kRows, 1>(weights, v, next_v, begin, end, column, out, padded_dim_);
    }
  }

  const AttentionTile& tile_;
  const AttentionTile* const next_;  // the thread's next tile, or null
  AttentionScratch& scratch_;
  const KvCacheView& kv_;
  const int64_t head_dim_;
  const int64_t padded_dim_;
  const int64_t group_size_;
  const int64_t num_rows_;
  const KeyRange range_;             // of all rows and splits
  AttentionState state_;             // of the split at hand
  KeyRange visible_[kMaxTileRows];   // per row, absolute
  int64_t row_begin_[kMaxTileRows];  // per row, within the key tile
  int64_t row_end_[kMaxTileRows];
  TileKeys tile_keys_[2];
  TileKeys* keys_ = &tile_keys_[0];       // of the tile at hand
  TileKeys* next_keys_ = &tile_keys_[1];  // of the one after it
};

// Scales q so that a score is the logit in base 2, or what the soft cap takes.
template <typename Q>
void LoadQueries(const AttentionTile& tile, float* queries) {
  const AttentionGeometry& geometry = *tile.geometry;
  const Tensor& q = tile.args->q;
  const int64_t group_size = geometry.num_q_heads / geometry.num_kv_heads;
  const float scale =
      geometry.soft_cap > 0 ? geometry.scale / geometry.soft_cap : geometry.scale * kLog2E;
  for (int64_t i = 0; i < tile.num_queries; ++i) {
    const Q* from = q.as<Q>() + (tile.first_token + i) * q.row_stride() +
                    tile.kv_head * group_size * geometry.head_dim;
    for (int64_t j = 0; j < group_size * geometry.head_dim; ++j) {
      *queries++ = static_cast<float>(from[j]) * scale;
    }
  }
}

template <typename Q>
void WriteOutput(const AttentionTile& tile, const AttentionState& total) {
  const AttentionGeometry& geometry = *tile.geometry;
  const Tensor& out = tile.args->out;
  const int64_t dim = geometry.head_dim;
  const int64_t group_size = geometry.num_q_heads / geometry.num_kv_heads;
  for (int64_t r = 0; r < tile.num_queries * group_size; ++r) {
    const int64_t token = tile.first_token + r / group_size;
    const int64_t head = tile.kv_head * group_size + r % group_size;
    const float sum = total.sum[r];
    const VF32 scale = hn::Set(F32(), sum > 0 ? 1.0f / sum : sum);  // zeros stay zeros, NaN NaN
    const float* from = total.out + r * PaddedHeadDim(dim);
    Q* to = out.as<Q>() + token * out.row_stride() + head * dim;
    for (int64_t i = 0; i < dim; i += kLanes) {
      StoreF32(hn::Mul(LoadF32(from + i), scale), to + i, dim - i);
    }
    if (tile.args->lse != nullptr) {
      tile.args->lse[token * geometry.num_q_heads + head] = total.max[r] + std::log2(sum);
    }
  }
}

void ClearTotal(const AttentionTile& tile, const AttentionState& total) {
  const AttentionGeometry& geometry = *tile.geometry;
  const int64_t num_rows = tile.num_queries * (geometry.num_q_heads / geometry.num_kv_heads);
  std::fill_n(total.out, num_rows * PaddedHeadDim(geometry.head_dim), 0.0f);
  std::fill_n(total.max, num_rows, kMinusInfinity);
  std::fill_n(total.sum, num_rows, 0.0f);
}

void WriteOutputOf(const AttentionTile& tile, const AttentionState& total) {
  if (tile.args->out.dtype() == DType::kF32) {
    WriteOutput<float>(tile, total);
  } else {
    WriteOutput<BFloat16>(tile, total);
  }
}

void AttendTileImpl(const AttentionTile& tile, const AttentionTile* next,
                    AttentionScratch& scratch) {
  if (tile.args->q.dtype() == DType::kF32) {
    LoadQueries<float>(tile, scratch.queries);
  } else {
    LoadQueries<BFloat16>(tile, scratch.queries);
  }
  const bool writes_output = tile.partials.out == nullptr;
  if (writes_output) ClearTotal(tile, scratch.total.state());
  if (tile.args->kv_cache.dtype == DType::kF32) {
    TileKernel<float>(tile, next, scratch).Attend();
  } else {
    TileKernel<BFloat16>(tile, next, scratch).Attend();
  }
  if (writes_output) WriteOutputOf(tile, scratch.total.state());
}

void MergeTileImpl(const AttentionTile& tile, AttentionScratch& scratch) {
  const AttentionGeometry& geometry = *tile.geometry;
  const int64_t padded_dim = PaddedHeadDim(geometry.head_dim);
  const int64_t num_rows = tile.num_queries * (geometry.num_q_heads / geometry.num_kv_heads);
  const AttentionState& total = scratch.total.state();
  ClearTotal(tile, total);
  for (int64_t split = 0; split < tile.end_split - tile.first_split; ++split) {
    FoldState(tile.partials.FromRow(split * tile.partial_stride, padded_dim), num_rows, padded_dim,
              total);
  }
  WriteOutputOf(tile, total);
}

}  // namespace HWY_NAMESPACE
}  // namespace quire::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quire::cpu {

HWY_EXPORT(AttendTileImpl);
HWY_EXPORT(MergeTileImpl);

void AttendTile(const AttentionTile& tile, const AttentionTile* next, AttentionScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(AttendTileImpl)(tile, next, scratch);
}

void MergeTile(const AttentionTile& tile, AttentionScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(MergeTileImpl)(tile, scratch);
}

AttentionStateBuffer::AttentionStateBuffer(int64_t num_rows, int64_t padded_dim)
    : memory_(hwy::AllocateAligned<float>(num_rows * (padded_dim + 2))) {
  CHECK(memory_ != nullptr) << "out of memory for attention state";
  state_.out = memory_.get();
  state_.max = state_.out + num_rows * padded_dim;
  state_.sum = state_.max + num_rows;
}

AttentionScratch::AttentionScratch(int64_t head_dim)
    : split(kMaxTileRows, PaddedHeadDim(head_dim)), total(kMaxTileRows, PaddedHeadDim(head_dim)) {
  constexpr int64_t kMaxLanes = 16;
  const int64_t num_floats = kMaxTileRows * (head_dim + kKeyTile + kMaxLanes) +
                             kKeyTile * (head_dim + PaddedHeadDim(head_dim));
  memory = hwy::AllocateAligned<float>(num_floats);
  CHECK(memory != nullptr) << "out of memory for attention scratch";
  keys = memory.get();
  values = keys + head_dim * kKeyTile;
  scores = values + kKeyTile * PaddedHeadDim(head_dim);
  lane_sums = scores + kMaxTileRows * kKeyTile;
  queries = lane_sums + kMaxTileRows * kMaxLanes;
  // Keys of groups that nobody sees are scored too, as whatever lies here.
  std::fill_n(memory.get(), num_floats, 0.0f);
}

}  // namespace quire::cpu
#endif  // HWY_ONCE
