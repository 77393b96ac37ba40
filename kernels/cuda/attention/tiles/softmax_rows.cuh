// The online softmax of the rows that a thread holds in matrix fragments: of each 16 rows, rows
// lane / 4 and lane / 4 + 8, and of each 8 keys two. Device code only.
#pragma once

#include "kernels/cuda/attention/tiles/softmax_state.cuh"
#include "kernels/cuda/attention/tiles/tile_rows.cuh"

namespace quire::cuda {

// Probs are 2^kProbsExponent times what they are, for gemms of elements that hold few small
// numbers; sums and results have that factor until SumOverLanes and Unscale.
template <int kRowTiles, int kProbsExponent = 0>
class SoftmaxRows {
 public:
  using PerRow = float[kRowTiles][2];

  // `first_row` is the thread's in the tile; its others follow at multiples of 8.
  __device__ SoftmaxRows(const TiledParams& p, const TileItem& item, int32_t first_row)
      // Functions that change logits are computed before the maximum is taken, the scale after it.
      : log2_scale_(p.variant.ChangesLogits() ? 1.0f : p.variant.scale * kLog2E),
        cap_inner_(p.variant.scale / p.variant.soft_cap * 2 * kLog2E),
        cap_outer_(p.variant.soft_cap * kLog2E) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        max_[m][half] = -INFINITY;
        sum_[m][half] = 0;
        const int32_t row = min(first_row + m * 16 + half * 8, item.num_rows - 1);
        const int32_t query = item.QueryOf(row);
        key_end_[m][half] = min(item.KeyEnd(query), item.key_end);
        key_begin_[m][half] = max(p.variant.KeyBegin(item.KeyEnd(query)), item.key_begin);
      }
    }
  }

  __device__ const PerRow& maxima() const { return max_; }
  __device__ const PerRow& sums() const { return sum_; }
  __device__ float log2_scale() const { return log2_scale_; }

  // Scores are products of what is stored: this times those are q.k. Before the first.
  __device__ void ScaleScores(const TiledParams& p, float factor) {
    if (!p.variant.ChangesLogits()) log2_scale_ *= factor;
    cap_inner_ *= factor;
  }

  // AttentionVariant::Logit in base 2: cap * tanh(score * scale / cap), where tanh(x) is
  // 1 - 2 / (1 + e^2x).
  template <int kFragments>
  __device__ void ChangeLogits(float (&scores)[kRowTiles][kFragments][4]) const {
#pragma unroll
    for (auto& row_tile : scores) {
#pragma unroll
      for (auto& fragment : row_tile) {
#pragma unroll
        for (float& score : fragment) {
          score =
              cap_outer_ - 2 * cap_outer_ * ReciprocalApprox(1 + Exp2Approx(score * cap_inner_));
        }
      }
    }
  }

  // `first_key` is the thread's first.
  template <int kFragments>
  __device__ void Mask(int32_t first_key, float (&scores)[kRowTiles][kFragments][4]) const {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kFragments; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int32_t key = first_key + n * 8 + (i & 1);
          const int half = i >> 1;
          if (key < key_begin_[m][half] || key >= key_end_[m][half]) scores[m][n][i] = -INFINITY;
        }
      }
    }
  }

  // Raises the maxima to those of the scores; `rescale` is what earlier probs are to be
  // multiplied by.
  template <int kFragments>
  __device__ void RaiseMaxima(const float (&scores)[kRowTiles][kFragments][4], PerRow& rescale) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float new_max = max_[m][half];
#pragma unroll
        for (int n = 0; n < kFragments; ++n) {
          new_max = fmaxf(new_max, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
        }
        new_max = fmaxf(new_max, __shfl_xor_sync(0xffffffff, new_max, 1));
        new_max = fmaxf(new_max, __shfl_xor_sync(0xffffffff, new_max, 2));
        base_[m][half] = new_max == -INFINITY ? 0.0f : new_max * log2_scale_;
        rescale[m][half] = Exp2Approx(max_[m][half] * log2_scale_ - base_[m][half]);
        base_[m][half] -= kProbsExponent;
        max_[m][half] = new_max;
        sum_[m][half] *= rescale[m][half];
      }
    }
  }

  // Turns the scores of fragments [kBegin, kEnd) into probs relative to the maxima.
  template <int kBegin, int kEnd, int kFragments>
  __device__ void MakeProbs(float (&scores)[kRowTiles][kFragments][4]) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float sum = 0;
#pragma unroll
        for (int n = kBegin; n < kEnd; ++n) {
#pragma unroll
          for (int i = 2 * half; i < 2 * half + 2; ++i) {
            scores[m][n][i] = Exp2Approx(scores[m][n][i] * log2_scale_ - base_[m][half]);
            sum += scores[m][n][i];
          }
        }
        sum_[m][half] += sum;
      }
    }
  }

  template <int kFragments>
  static __device__ void Multiply(const PerRow& factors, float (&out)[kRowTiles][kFragments][4]) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kFragments; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) out[m][n][i] *= factors[m][i >> 1];
      }
    }
  }

  // out = out * factors + part.
  template <int kFragments>
  static __device__ void MultiplyAdd(const PerRow& factors,
                                     const float (&part)[kRowTiles][kFragments][4],
                                     float (&out)[kRowTiles][kFragments][4]) {
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < kFragments; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          out[m][n][i] = out[m][n][i] * factors[m][i >> 1] + part[m][n][i];
        }
      }
    }
  }

  template <int kFragments>
  static __device__ void Unscale(float (&out)[kRowTiles][kFragments][4]) {
    static_assert(kRowTiles == 1);
    if constexpr (kProbsExponent != 0) {
      constexpr float kFactor = 1.0f / (1 << kProbsExponent);
      const PerRow factors = {{kFactor, kFactor}};
      Multiply(factors, out);
    }
  }

  // Each of the four lanes of a row has summed its own keys.
  __device__ void SumOverLanes() {
#pragma unroll
    for (auto& sums : sum_) {
#pragma unroll
      for (float& sum : sums) {
        sum += __shfl_xor_sync(0xffffffff, sum, 1);
        sum += __shfl_xor_sync(0xffffffff, sum, 2);
        sum *= 1.0f / (1 << kProbsExponent);
      }
    }
  }

 private:
  float log2_scale_;
  float cap_inner_;
  const float cap_outer_;
  PerRow max_;
  PerRow base_;  // the maximum in base 2, finite, less kProbsExponent
  PerRow sum_;
  int32_t key_begin_[kRowTiles][2];
  int32_t key_end_[kRowTiles][2];
};

}  // namespace quire::cuda
