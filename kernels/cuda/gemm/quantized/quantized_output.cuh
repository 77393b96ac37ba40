// The end of the gemms with quantized weights: from sums in shared memory to results. Device code
// only.
#pragma once

#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/gemm/quantized/quantized_gemm_shape.cuh"

namespace quire::cuda {

// From sums to results, four neighbouring features at a time; the CTAs that share out in_features
// share them out, too.
template <typename Shape, typename Shared>
class QuantizedOutput {
 public:
  __device__ QuantizedOutput(const QuantizedGemmParams& p, const Shared& shared,
                             const QuantizedGemmWork& work)
      : p_(p), shared_(shared), work_(work) {}

  __device__ void Run() const {
    if (p_.num_gates > 0) {
      RunQuads<kHalf>([&](int row, int feature, int column, float(&values)[4]) {
        float ups[4];
        Sum(row, feature, column, values);
        Sum(row, feature + kHalf, column + p_.num_gates, ups);
#pragma unroll
        for (int i = 0; i < 4; ++i) values[i] = Gated<Element>(values[i], ups[i], p_.activation);
      });
    } else {
      RunQuads<Shape::kTileFeatures>([&](int row, int feature, int column, float(&values)[4]) {
        Sum(row, feature, column, values);
      });
    }
  }

 private:
  using Element = typename Shape::Element;
  static constexpr int kMaxSplits = 8;
  static constexpr int kHalf = Shape::kTileFeatures / 2;  // of a gated gemm: the gates

  // make(row, feature of the tile, column of out, values)
  template <int kFeatures, typename Make>
  __device__ void RunQuads(const Make& make) const {
    constexpr int kQuads = kFeatures / 4;
    const int num_rows = work_.end_row - work_.first_row;
    const int stride = Shape::kComputeThreads * p_.num_splits;
#pragma unroll 2
    for (int i = work_.split * Shape::kComputeThreads + static_cast<int>(threadIdx.x);
         i < num_rows * kQuads; i += stride) {
      const int row = i / kQuads, feature = i % kQuads * 4;
      const int column = work_.tile * kFeatures + feature;
      if (column >= p_.num_features) continue;
      float values[4];
      make(row, feature, column, values);
      const int at = work_.first_row + row;
      Store(values, (p_.pairs == nullptr ? at : p_.pairs[at]) * p_.out_stride + column,
            p_.num_features - column);
    }
  }

  // Sums up all splits, in their order, and the bias of the weight's rows from `column` on. The
  // loads are under way together, because each takes long from another CTA.
  __device__ void Sum(int row, int feature, int column, float (&sums)[4]) const {
    const uint32_t at = shared_.sums(row, feature);
    if (p_.num_splits == 1) {
      const uint4 all = LoadShared16(at);
      sums[0] = __uint_as_float(all.x), sums[1] = __uint_as_float(all.y);
      sums[2] = __uint_as_float(all.z), sums[3] = __uint_as_float(all.w);
    } else {
      float4 parts[kMaxSplits];
#pragma unroll
      for (int split = 0; split < kMaxSplits; ++split) {
        if (split >= p_.num_splits) break;
        parts[split] = LoadQuadInCluster(AddressInCluster(at, work_.RankOfSplit(p_, split)));
      }
      sums[0] = sums[1] = sums[2] = sums[3] = 0;
#pragma unroll
      for (int split = 0; split < kMaxSplits; ++split) {
        if (split >= p_.num_splits) break;
        sums[0] += parts[split].x, sums[1] += parts[split].y;
        sums[2] += parts[split].z, sums[3] += parts[split].w;
      }
    }
    if (p_.bias.data == nullptr) return;
    const int num_columns = p_.num_gates > 0 ? 2 * p_.num_gates : p_.num_features;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float bias[1] = {0};
      if (column + i < num_columns) {
        p_.bias.LoadAt(work_.expert * num_columns + column + i, bias);
      }
      sums[i] += bias[0];
    }
  }

  __device__ void Store(const float (&values)[4], int64_t at, int num_left) const {
    if (p_.out_is_float) {
      StoreQuad(static_cast<float*>(p_.out) + at, values, num_left,
                float4{values[0], values[1], values[2], values[3]});
    } else {
      const uint32_t low = PackPair<Element>(values[0], values[1]);
      const uint32_t high = PackPair<Element>(values[2], values[3]);
      const uint16_t parts[4] = {static_cast<uint16_t>(low), static_cast<uint16_t>(low >> 16),
                                 static_cast<uint16_t>(high), static_cast<uint16_t>(high >> 16)};
      StoreQuad(static_cast<uint16_t*>(p_.out) + at, parts, num_left, uint2{low, high});
    }
  }
  // In one access where that may be.
  template <typename T, typename Quad>
  static __device__ void StoreQuad(T* to, const T (&parts)[4], int num_left, const Quad& quad) {
    if (num_left >= 4 && reinterpret_cast<uintptr_t>(to) % sizeof(Quad) == 0) {
      *reinterpret_cast<Quad*>(to) = quad;
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (i < num_left) to[i] = parts[i];
    }
  }

  const QuantizedGemmParams& p_;
  const Shared& shared_;
  const QuantizedGemmWork& work_;
};

}  // namespace quire::cuda
