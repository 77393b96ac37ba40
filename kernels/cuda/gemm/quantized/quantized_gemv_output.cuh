// The end of gemvs with quantized weights: from sums in shared memory to results. Device code only.
#pragma once

#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/gemm/quantized/quantized_gemv_shape.cuh"

namespace quire::cuda {

// All threads of all CTAs of a cluster run it for a tile whose sums are in a buffer.
template <typename Shape>
class QuantizedGemvOutput {
 public:
  __device__ QuantizedGemvOutput(const QuantizedGemmParams& p,
                                 const QuantizedGemvShared<Shape>& shared,
                                 const QuantizedGemvWork& work)
      : p_(p), shared_(shared), work_(work), num_shares_(1 << work.share_shift()) {}

  __device__ void Run(int tile, int buffer) const {
    if (p_.num_splits == 1) {
      Store(tile, static_cast<int>(threadIdx.x), Shape::kThreads,
            [&](int row, int feature) { return SumOfShares(buffer, row, feature); });
      return;
    }
    const int shift = work_.feature_shift();
    for (int i = static_cast<int>(threadIdx.x); i < work_.num_rows << shift; i += Shape::kThreads) {
      const int row = i >> shift, feature = i & (1 << shift) - 1;
      StoreShared4(shared_.sums(buffer, 0, row, feature),
                   __float_as_uint(SumOfShares(buffer, row, feature)));
    }
    PublishInCluster();
    Store(tile, work_.split * Shape::kThreads + static_cast<int>(threadIdx.x),
          p_.num_splits * Shape::kThreads,
          [&](int row, int feature) { return SumOfSplits(buffer, row, feature); });
  }

 private:
  using Element = typename Shape::Element;
  static constexpr int kMaxSplits = 8;

  // Results first, first + stride and so on of the tile. sum(row, feature of the tile)
  template <typename Sum>
  __device__ void Store(int tile, int first, int stride, const Sum& sum) const {
    const bool is_gated = p_.num_gates > 0;
    const int shift = work_.feature_shift() - (is_gated ? 1 : 0);
    for (int i = first; i < work_.num_rows << shift; i += stride) {
      const int row = i >> shift, feature = i & (1 << shift) - 1;
      const int column = (tile << shift) + feature;
      if (column >= p_.num_features) continue;
      float value[1];
      if (is_gated) {  // a warp's strips are gates and their ups
        const int gate = feature / kQuarterRows * 2 * kQuarterRows + feature % kQuarterRows;
        value[0] = Gated<Element>(sum(row, gate) + Bias(column),
                                  sum(row, gate + kQuarterRows) + Bias(column + p_.num_gates),
                                  p_.activation);
      } else {
        value[0] = sum(row, feature) + Bias(column);
      }
      const int x_row = work_.first_row + row;
      const int64_t at = (p_.pairs == nullptr ? x_row : p_.pairs[x_row]) * p_.out_stride + column;
      if (p_.out_is_float) {
        quire::cuda::Store(value, static_cast<float*>(p_.out) + at);
      } else {
        quire::cuda::Store(value, static_cast<Element*>(p_.out) + at);
      }
    }
  }
  __device__ float Bias(int column) const {
    float bias[1] = {0};
    const int num_columns = p_.num_gates > 0 ? 2 * p_.num_gates : p_.num_features;
    if (p_.bias.data != nullptr) p_.bias.LoadAt(work_.expert * num_columns + column, bias);
    return bias[0];
  }

  // In the order of the shares, as in that of the splits.
  __device__ float SumOfShares(int buffer, int row, int feature) const {
    const uint32_t from = shared_.sums(buffer, 0, row, feature);
    const uint32_t stride = p_.num_rows * shared_.sums_stride();
    float sum = 0;
#pragma unroll 4
    for (int share = 0; share < num_shares_; ++share) {
      sum += __uint_as_float(LoadShared4(from + share * stride));
    }
    return sum;
  }
  // The loads are under way together: from another CTA each takes long.
  __device__ float SumOfSplits(int buffer, int row, int feature) const {
    const uint32_t from = shared_.sums(buffer, 0, row, feature);
    float parts[kMaxSplits], sum = 0;
#pragma unroll
    for (int split = 0; split < kMaxSplits; ++split) {
      if (split < p_.num_splits) parts[split] = LoadInCluster(AddressInCluster(from, split));
    }
#pragma unroll
    for (int split = 0; split < kMaxSplits; ++split) {
      if (split < p_.num_splits) sum += parts[split];
    }
    return sum;
  }

  const QuantizedGemmParams& p_;
  const QuantizedGemvShared<Shape>& shared_;
  const QuantizedGemvWork& work_;
  const int num_shares_;
};

}  // namespace quire::cuda
