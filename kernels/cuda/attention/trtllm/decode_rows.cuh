// Which query rows and keys an item has, and what the softmax of the rows that a lane holds needs:
// of each 8 rows, rows 2 * (lane % 4) and the next. Device code only.
#pragma once

#include "kernels/cuda/attention/tiles/softmax_state.cuh"
#include "kernels/cuda/attention/trtllm/decode_shape.cuh"

namespace quire::cuda::trtllm {

// The rows of one unit. A row is query * group_size + head within the group.
struct DecodeRows {
  const DecodeLayout& layout;
  int32_t kv_head;
  int32_t first_row;
  int32_t num_rows;
  int32_t first_token;
  int32_t seq_len;

  __device__ DecodeRows(const DecodeParams& p, const DecodeItem& item, int32_t unit_rows)
      : layout(p.layout),
        kv_head(item.unit / layout.row_tiles),
        first_row(item.unit % layout.row_tiles * unit_rows),
        num_rows(min(unit_rows, layout.query_len * layout.group_size - first_row)),
        first_token(item.first_token),
        seq_len(item.seq_len) {}

  __device__ int32_t QueryOf(int32_t row) const { return (first_row + row) / layout.group_size; }
  __device__ int32_t HeadOf(int32_t row) const {
    return kv_head * layout.group_size + (first_row + row) % layout.group_size;
  }
  __device__ int64_t TokenOf(int32_t row) const { return first_token + QueryOf(row); }
  // A query sees the keys [AttentionVariant::KeyBegin(KeyEnd), KeyEnd).
  __device__ int32_t KeyEnd(int32_t query) const {
    return seq_len - (layout.query_len - 1 - query);
  }
};

template <typename Shape>
class DecodeSoftmax {
 public:
  using PerRow = float[Shape::kRowTiles][2];
  static constexpr int kFragments = kTileKeys / 16;
  using Scores = float[kFragments][Shape::kRowTiles][4];

  // The warp's rows begin at `first_row`; `scales` multiply q.k of the lane's rows.
  __device__ void Start(const AttentionVariant& variant, const DecodeRows& rows, int32_t first_row,
                        const PerRow& scales) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    cap_ = variant.soft_cap;
    all_begin_ = variant.KeyBegin(rows.seq_len);
    all_end_ = rows.KeyEnd(0);
#pragma unroll
    for (int n = 0; n < Shape::kRowTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        max_[n][i] = -INFINITY;
        sum_[n][i] = 0;
        cap_inner_[n][i] = cap_ > 0 ? scales[n][i] / cap_ * 2 * kLog2E : 0;
        log2_scale_[n][i] = cap_ > 0 ? 1.0f : scales[n][i] * kLog2E;
        const int32_t row = min(first_row + n * 8 + lane % 4 * 2 + i, rows.num_rows - 1);
        key_end_[n][i] = rows.KeyEnd(rows.QueryOf(row));
        key_begin_[n][i] = variant.KeyBegin(key_end_[n][i]);
      }
    }
  }

  // The logits of a tile, with those of keys that a row does not see at -infinity.
  __device__ void MakeLogits(int32_t first_key, Scores& scores) const {
    if (cap_ > 0) ApplyCap(scores);
    if (first_key < all_begin_ || first_key + kTileKeys > all_end_) Mask(first_key, scores);
  }

  // Raises the maxima to those of the logits; `rescale` is what earlier probs are to be multiplied
  // by. True where that is 1 for all rows of the warp.
  __device__ bool RaiseMaxima(const Scores& scores, PerRow& rescale) {
    bool same = true;
#pragma unroll
    for (int n = 0; n < Shape::kRowTiles; ++n) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float new_max = max_[n][i];
#pragma unroll
        for (int m = 0; m < kFragments; ++m) {
          new_max = fmaxf(new_max, fmaxf(scores[m][n][i], scores[m][n][i + 2]));
        }
#pragma unroll
        for (int lanes = 4; lanes < 32; lanes *= 2) {
          new_max = fmaxf(new_max, __shfl_xor_sync(0xffffffff, new_max, lanes));
        }
        same = same && new_max == max_[n][i];
        base_[n][i] = new_max == -INFINITY ? 0.0f : new_max * log2_scale_[n][i];
        rescale[n][i] = Exp2Approx(max_[n][i] * log2_scale_[n][i] - base_[n][i]);
        max_[n][i] = new_max;
        sum_[n][i] *= rescale[n][i];
      }
    }
    return __all_sync(0xffffffff, same);
  }

  // Turns logits into probs relative to the maxima.
  __device__ void MakeProbs(Scores& scores) {
#pragma unroll
    for (int m = 0; m < kFragments; ++m) {
#pragma unroll
      for (int n = 0; n < Shape::kRowTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& score = scores[m][n][i];
          score = Exp2Approx(score * log2_scale_[n][i & 1] - base_[n][i & 1]);
          sum_[n][i & 1] += score;
        }
      }
    }
  }

  // Each lane has summed its own keys.
  __device__ void SumOverLanes() {
#pragma unroll
    for (auto& sums : sum_) {
#pragma unroll
      for (float& sum : sums) {
#pragma unroll
        for (int lanes = 4; lanes < 32; lanes *= 2) {
          sum += __shfl_xor_sync(0xffffffff, sum, lanes);
        }
      }
    }
  }

  // Maximum in base 2, and sum.
  __device__ float2 State(int n, int i) const {
    return {max_[n][i] * log2_scale_[n][i], sum_[n][i]};
  }

 private:
  // cap * tanh(score * scale / cap) in base 2; tanh(x) is 1 - 2 / (1 + e^2x).
  __device__ void ApplyCap(Scores& scores) const {
    const float outer = cap_ * kLog2E;
#pragma unroll
    for (auto& fragment : scores) {
#pragma unroll
      for (int n = 0; n < Shape::kRowTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float& score = fragment[n][i];
          score =
              outer - 2 * outer * ReciprocalApprox(1 + Exp2Approx(score * cap_inner_[n][i & 1]));
        }
      }
    }
  }

  __device__ void Mask(int32_t first_key, Scores& scores) const {
    const int32_t first = first_key + static_cast<int32_t>(threadIdx.x) % 32 / 4;
#pragma unroll
    for (int m = 0; m < kFragments; ++m) {
#pragma unroll
      for (int n = 0; n < Shape::kRowTiles; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int32_t key = first + m * 16 + i / 2 * 8;
          if (key < key_begin_[n][i & 1] || key >= key_end_[n][i & 1]) scores[m][n][i] = -INFINITY;
        }
      }
    }
  }

  float cap_;
  int32_t all_begin_, all_end_;  // keys that every row sees
  PerRow cap_inner_;
  PerRow log2_scale_;
  PerRow max_;
  PerRow base_;  // the maximum in base 2, finite
  PerRow sum_;
  int32_t key_begin_[Shape::kRowTiles][2];
  int32_t key_end_[Shape::kRowTiles][2];
};

}  // namespace quire::cuda::trtllm
