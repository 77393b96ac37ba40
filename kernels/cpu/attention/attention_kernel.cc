#include "kernels/cpu/attention/attention_kernel.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/attention_kernel.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/attention/amx_rows-inl.h"
#include "kernels/cpu/attention/blocks-inl.h"
#include "kernels/cpu/attention/vector_rows-inl.h"
#include "kernels/cpu/runtime/simd-inl.h"

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

// One tile: the splits and tiles of keys that its rows see, one after the other. T is the cache's
// element, Rows what computes them.
template <typename T, typename Rows>
class TileWalk {
 public:
  TileWalk(const AttentionTile& tile, const AttentionTile* next, AttentionScratch& scratch)
      : tile_(tile),
        next_(next),
        scratch_(scratch),
        kv_(tile.args->kv_cache),
        range_(KeysOf(tile)),
        rows_(tile, scratch) {}

  // Leaves each split's state in the partials, or folds it into the scratch's total.
  void Attend() {
    const int64_t window = tile_.geometry->sliding_window;
    const int64_t padded_dim = PaddedHeadDim(tile_.geometry->v_head_dim);
    const int64_t num_rows = tile_.num_rows();
    for (int64_t r = 0; r < num_rows; ++r) {
      visible_[r] = VisibleKeys(tile_.first_position + r / tile_.group_size(), window);
    }
    if (!range_.empty()) LocateKeys(tile_, range_, range_.begin / kKeyTile * kKeyTile, *keys_);
    for (int64_t split = tile_.first_split; split < tile_.end_split; ++split) {
      const int64_t partial_row = (split - tile_.first_split) * tile_.partial_stride;
      const AttentionState state = tile_.partials.out != nullptr
                                       ? tile_.partials.FromRow(partial_row, padded_dim)
                                       : scratch_.split.state();
      rows_.Begin(state);
      AttendSplit(split * kKeySplit);
      rows_.End();
      if (tile_.partials.out == nullptr) {
        FoldState(state, num_rows, padded_dim, scratch_.total.state());
      }
    }
  }

 private:
  void AttendSplit(int64_t split_begin) {
    const int64_t begin = std::max(range_.begin, split_begin);
    const int64_t end = std::min(range_.end, split_begin + kKeySplit);
    for (int64_t key_tile = begin / kKeyTile * kKeyTile; key_tile < end; key_tile += kKeyTile) {
      // While one tile of keys is computed, the rows of the one after it are fetched.
      const bool has_next = LocateNextKeys(key_tile + kKeyTile);
      SetVisible(key_tile, *keys_);
      rows_.Attend(*keys_, has_next ? *next_keys_ : *keys_);
      std::swap(keys_, next_keys_);
    }
  }

  // Locates the keys to fetch while the keys before `key_tile` are computed; false: there are none.
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

  void SetVisible(int64_t key_tile, KeyTile<T>& keys) const {
    keys.begin = std::max(range_.begin - key_tile, int64_t{0});
    keys.end = std::min(range_.end - key_tile, kKeyTile);
    for (int64_t r = 0; r < tile_.num_rows(); ++r) {
      keys.row_begin[r] = std::max(visible_[r].begin - key_tile, keys.begin);
      keys.row_end[r] = std::min(visible_[r].end - key_tile, keys.end);
    }
  }

  // Finds the groups of a tile of keys that hold visible ones (in `range`); whole, because a block
  // does. The others repeat the first one, to be read as harmlessly.
  void LocateKeys(const AttentionTile& tile, const KeyRange& range, int64_t key_tile,
                  KeyTile<T>& keys) const {
    const int64_t first = (std::max(range.begin - key_tile, int64_t{0})) / kKeyGroup;
    const int64_t last = CeilDiv(std::min(range.end - key_tile, kKeyTile), kKeyGroup);
    for (int64_t group = first; group < last; ++group) {
      const int64_t position = key_tile + group * kKeyGroup;
      const int64_t block = tile.blocks[position / kv_.block_size];
      CHECK_GE(block, 0) << "no block at position " << position;
      const int64_t offset = block * kv_.k.block_stride +
                             position % kv_.block_size * kv_.k.token_stride +
                             tile.kv_head * kv_.k.head_stride;
      keys.k.groups[group] = static_cast<const T*>(kv_.k.data) + offset;
      keys.v.groups[group] = static_cast<const T*>(kv_.v.data) + offset;
    }
    for (TileRows<T>* rows : {&keys.k, &keys.v}) {
      rows->stride = kv_.k.token_stride;
      std::fill(std::begin(rows->groups), rows->groups + first, rows->groups[first]);
      std::fill(rows->groups + last, std::end(rows->groups), rows->groups[first]);
    }
  }

  const AttentionTile& tile_;
  const AttentionTile* const next_;  // the thread's next tile, or null
  AttentionScratch& scratch_;
  const KvCacheView& kv_;
  const KeyRange range_;             // of all rows and splits
  KeyRange visible_[kMaxQueryRows];  // per row, absolute
  KeyTile<T> tile_keys_[2];
  KeyTile<T>* keys_ = &tile_keys_[0];       // of the tile at hand
  KeyTile<T>* next_keys_ = &tile_keys_[1];  // of the one after it
  Rows rows_;
};

// What a row becomes: `scale` times its state's sum of values.
struct FinalRow {
  float scale;
  float lse;
};

// `sink`: a logit in base 2 that adds to the sum only; -infinity where there is none.
FinalRow Finish(float max, float sum, float sink, float v_scale) {
  if (sink > kMinusInfinity) {
    const float with_sink = std::max(max, sink);
    const float part = Exp2Scalar(max - with_sink);
    const float total = sum * part + Exp2Scalar(sink - with_sink);
    return {v_scale * part / total, with_sink + std::log2(total)};
  }
  // Zeros stay zeros, NaN NaN.
  return {sum > 0 ? v_scale / sum : sum, max + std::log2(sum)};
}

// `row` becomes its part of what it and the attention to other keys are together; returns the share
// of those.
float MergeWith(float old_lse, FinalRow& row) {
  const float max = std::max(old_lse, row.lse);
  if (max == kMinusInfinity) return 0;
  const float lse = max + std::log2(Exp2Scalar(old_lse - max) + Exp2Scalar(row.lse - max));
  row = {row.scale * Exp2Scalar(row.lse - lse), lse};
  return Exp2Scalar(old_lse - lse);
}

template <typename Q>
void WriteOutput(const AttentionTile& tile, const AttentionState& total) {
  const AttentionGeometry& geometry = *tile.geometry;
  const Tensor& out = tile.args->out;
  const int64_t dim = geometry.v_head_dim;
  const int64_t group_size = tile.group_size();
  const float* sinks = tile.args->sinks;
  const float v_scale = CacheScale(tile.args->kv_cache.v.scales, tile.kv_head);
  for (int64_t r = 0; r < tile.num_rows(); ++r) {
    const int64_t token = tile.first_token + r / group_size;
    const int64_t head = tile.kv_head * group_size + r % group_size;
    const float sink = sinks == nullptr ? kMinusInfinity : sinks[head] * kLog2E;
    FinalRow row = Finish(total.max[r], total.sum[r], sink, v_scale);
    const float* from = total.out + r * PaddedHeadDim(dim);
    Q* to = out.as<Q>() + token * out.row_stride() + head * dim;
    float* lse =
        tile.args->lse == nullptr ? nullptr : tile.args->lse + token * geometry.num_q_heads + head;
    const float old_share = tile.merges ? MergeWith(*lse, row) : 0;
    for (int64_t i = 0; i < dim; i += kLanes) {
      VF32 value = hn::Mul(LoadF32(from + i), hn::Set(F32(), row.scale));
      if (old_share > 0) {
        value = hn::MulAdd(LoadF32(to + i, dim - i), hn::Set(F32(), old_share), value);
      }
      StoreF32(value, to + i, dim - i);
    }
    if (lse != nullptr) *lse = row.lse;
  }
}

void ClearTotal(const AttentionTile& tile, const AttentionState& total) {
  const int64_t num_rows = tile.num_rows();
  std::fill_n(total.out, num_rows * PaddedHeadDim(tile.geometry->v_head_dim), 0.0f);
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
  const bool writes_output = tile.partials.out == nullptr;
  if (writes_output) ClearTotal(tile, scratch.total.state());
  const DType dtype = tile.args->kv_cache.dtype;
  if (dtype == DType::kF32) {
    TileWalk<float, VectorRows<float>>(tile, next, scratch).Attend();
  } else if (dtype == DType::kF8E4M3) {
    TileWalk<Float8E4M3, VectorRows<Float8E4M3>>(tile, next, scratch).Attend();
  } else if (dtype == DType::kF8E5M2) {
    TileWalk<Float8E5M2, VectorRows<Float8E5M2>>(tile, next, scratch).Attend();
  } else if (tile.with_amx) {
#if QUIRE_ATTENTION_AMX
    TileWalk<BFloat16, AmxRows>(tile, next, scratch).Attend();
#else
    CHECK(false) << "AMX needs AVX-512; another backend of this process was limited to less";
#endif
  } else {
    TileWalk<BFloat16, VectorRows<BFloat16>>(tile, next, scratch).Attend();
  }
  if (writes_output) WriteOutputOf(tile, scratch.total.state());
}

void MergeTileImpl(const AttentionTile& tile, AttentionScratch& scratch) {
  const int64_t padded_dim = PaddedHeadDim(tile.geometry->v_head_dim);
  const int64_t num_rows = tile.num_rows();
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
    : split(kMaxQueryRows, PaddedHeadDim(head_dim)), total(kMaxQueryRows, PaddedHeadDim(head_dim)) {
  constexpr int64_t kMaxLanes = 16;
  const int64_t num_floats = kMaxQueryRows * (head_dim + kKeyTile + kMaxLanes) +
                             kKeyTile * (head_dim + PaddedHeadDim(head_dim));
  memory = hwy::AllocateAligned<float>(num_floats);
  CHECK(memory != nullptr) << "out of memory for attention scratch";
  keys = memory.get();
  values = keys + head_dim * kKeyTile;
  scores = values + kKeyTile * PaddedHeadDim(head_dim);
  lane_sums = scores + kMaxQueryRows * kKeyTile;
  queries = lane_sums + kMaxQueryRows * kMaxLanes;
  // Keys of groups that nobody sees are scored too, as whatever lies here.
  std::fill_n(memory.get(), num_floats, 0.0f);
}

}  // namespace quire::cpu
#endif  // HWY_ONCE
