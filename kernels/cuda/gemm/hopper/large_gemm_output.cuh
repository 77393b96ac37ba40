// The end of gemms of many rows (large_gemm.cuh): from a warpgroup's sums to results. Device code
// only.
#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/elementwise/activation.cuh"
#include "kernels/cuda/gemm/hopper/large_gemm_shape.cuh"

namespace quire::cuda {

template <typename Shape>
class LargeGemmOutput {
 public:
  using Sums = float[1][Shape::kFragments][4];

  __device__ LargeGemmOutput(const LargeGemmParams& p, const LargeGemmShared<Shape>& shared)
      : p_(p), shared_(shared) {}

  // All computing warps; where steps are shared out, all threads of the cluster, once
  // (PublishInCluster).
  __device__ void Run(const LargeGemmTiles<Shape>& tiles, Sums& sums) const {
    if constexpr (Shape::kMaySplit) {
      if (p_.num_splits == 2) AddSplits<2>(tiles, sums);
    }
    if (p_.float8.weight_row_scales != nullptr) {
      ScaleWeightRows(p_.float8, tiles.FirstWeightRow(0), tiles.FirstWeightRow(1), sums);
    }
    if (p_.bias.data != nullptr) AddBias(tiles.column_tile(), sums);
    if (p_.num_gates == 0) {
      StoreAs<NotGated>(tiles, sums);
    } else if (p_.activation == Activation::kSilu) {
      StoreAs<Silu>(tiles, sums);
    } else if (p_.activation == Activation::kClampedSwish) {
      StoreAs<ClampedSwish>(tiles, sums);
    } else {
      StoreAs<GeluTanh>(tiles, sums);
    }
  }
  // Before the CTA ends, or anything else is written where results are stored from.
  __device__ void WaitForStores() const {
    if (IsStoring()) WaitForStoresRead();
  }

 private:
  using Element = typename Shape::Element;
  static constexpr int kHalfFragments = Shape::kFragments / 2;
  static constexpr int kAllComputing = 7;  // a named barrier
  struct NotGated {};
  template <typename Function>
  static constexpr bool kIsGated = !std::is_same_v<Function, NotGated>;

  // A split finishes a part of each half of the fragments, so that it has gates with their ups. It
  // gets the sums of the other splits through shared memory, and adds them to its own in their
  // order.
  template <int kSplits>
  __device__ void AddSplits(const LargeGemmTiles<Shape>& tiles, Sums& sums) const {
    constexpr int kPart = kHalfFragments / kSplits;
    SyncSome(kAllComputing, Shape::kComputeThreads);  // nobody reads stages any more
#pragma unroll
    for (int n = 0; n < Shape::kFragments; ++n) {
      if (n % kHalfFragments / kPart == tiles.split()) continue;
      const float(&v)[4] = sums[0][n];
      StoreShared16(shared_.sums(n), {__float_as_uint(v[0]), __float_as_uint(v[1]),
                                      __float_as_uint(v[2]), __float_as_uint(v[3])});
    }
    PublishInCluster();
#pragma unroll
    for (int part = 0; part < kSplits; ++part) {
      if (part != tiles.split()) continue;
#pragma unroll
      for (int i = 1; i < kSplits; ++i) {
        const int other = i <= part ? i - 1 : i;
        AddPart<kPart>(part, tiles.rank() + other * Shape::kPairSize, sums);
      }
    }
  }
  // The loads are under way together: from another CTA each takes long.
  template <int kPart>
  __device__ __forceinline__ void AddPart(int part, int cta, Sums& sums) const {
    float4 others[2 * kPart];
#pragma unroll
    for (int i = 0; i < 2 * kPart; ++i) {
      others[i] =
          LoadQuadInCluster(AddressInCluster(shared_.sums(FragmentOf<kPart>(part, i)), cta));
    }
#pragma unroll
    for (int i = 0; i < 2 * kPart; ++i) {
      float(&v)[4] = sums[0][FragmentOf<kPart>(part, i)];
      v[0] += others[i].x, v[1] += others[i].y, v[2] += others[i].z, v[3] += others[i].w;
    }
  }
  template <int kPart>
  static constexpr __device__ int FragmentOf(int part, int i) {
    return i / kPart * kHalfFragments + part * kPart + i % kPart;
  }

  // Here, not at a result's end, so that gemms without have no branch there for each pair.
  __device__ void AddBias(int column_tile, Sums& sums) const {
    const int half_columns = p_.num_gates > 0 ? p_.num_gates : Shape::kHalf;
    const int first = column_tile * (p_.num_gates > 0 ? Shape::kHalf : Shape::kTileFeatures) +
                      static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int n = 0; n < Shape::kFragments; ++n) {
      const int column = first + n % kHalfFragments * 8;
      const int feature = column + n / kHalfFragments * half_columns;
      const bool exists = p_.num_gates > 0 ? column < p_.num_columns : feature < p_.num_columns;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float bias[1] = {0};
        if (exists) p_.bias.LoadAt(feature + i, bias);
        sums[0][n][i] += bias[0];
        sums[0][n][i + 2] += bias[0];
      }
    }
  }

  template <typename Function>
  __device__ void StoreAs(const LargeGemmTiles<Shape>& tiles, const Sums& sums) const {
    if (!Shape::kMaySplit || p_.num_splits == 1) {
      StoreBoxes<Function>(tiles, sums);
    } else if constexpr (Shape::kMaySplit) {
      StoreParts<Function>(tiles, sums);
    }
  }

  // Whether this is the thread of its warpgroup that sends results.
  __device__ bool IsStoring() const { return threadIdx.x % 128 == 0; }
  __device__ void SyncWarpgroup() const { SyncSome(1 + static_cast<int>(threadIdx.x) / 128, 128); }

  // Through shared memory, kOutBlocks blocks of 64 columns at a time; TMA leaves out what lies
  // beyond the result, and stores while the next tile is multiplied.
  template <typename Function>
  __device__ void StoreBoxes(const LargeGemmTiles<Shape>& tiles, const Sums& sums) const {
    constexpr int kColumns = kIsGated<Function> ? Shape::kHalf : Shape::kTileFeatures;
    constexpr int kBlockColumns = Shape::kOutColumns;
    constexpr int kBlocks = CeilDiv(kColumns, kBlockColumns);
    // The last may repeat columns of the one before: the same values.
    const auto column_of = [](int block) {
      return std::min(block * kBlockColumns, kColumns - kBlockColumns);
    };
    const int warpgroup = static_cast<int>(threadIdx.x) / 128;
    const int first_row = tiles.first_row() + warpgroup * Shape::kOutRows;
    const int first_column = tiles.column_tile() * kColumns;
#pragma unroll
    for (int first = 0; first < kBlocks; first += Shape::kOutBlocks) {
      if (IsStoring()) WaitForStoresRead();
      SyncWarpgroup();
#pragma unroll
      for (int i = 0; i < Shape::kOutBlocks && first + i < kBlocks; ++i) {
        Leave<Function>(shared_.out(warpgroup) + i * Shape::kOutBlockBytes, column_of(first + i),
                        sums);
      }
      FenceSharedWrites();
      SyncWarpgroup();
      if (IsStoring()) {
#pragma unroll
        for (int i = 0; i < Shape::kOutBlocks && first + i < kBlocks; ++i) {
          StoreBox(shared_.out(warpgroup) + i * Shape::kOutBlockBytes, p_.out_map,
                   first_column + column_of(first + i), first_row);
        }
        CommitStores();
      }
    }
  }
  // The warp's 16 rows of a block of 64 columns, swizzled.
  template <typename Function>
  __device__ void Leave(uint32_t block, int column, const Sums& sums) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < Shape::kOutColumns / 8; i += 2) {
      const int n = column / 8 + i;
      const uint32_t matrices[4] = {Finish<Function>(sums, n, 0), Finish<Function>(sums, n, 1),
                                    Finish<Function>(sums, n + 1, 0),
                                    Finish<Function>(sums, n + 1, 1)};
      StoreMatrices(block + row * Shape::kLineBytes + ((i + lane / 16) ^ (row % 8)) * 16, matrices);
    }
  }
  // What a split has finished: a lane has two neighbouring columns of two rows of a fragment.
  template <typename Function>
  __device__ void StoreParts(const LargeGemmTiles<Shape>& tiles, const Sums& sums) const {
    constexpr int kCount = kIsGated<Function> ? kHalfFragments : Shape::kFragments;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int row = tiles.first_row() + static_cast<int>(threadIdx.x) / 32 * 16 + lane / 4;
    const int first_column = tiles.column_tile() * kCount * 8 + lane % 4 * 2;
    const int part = kHalfFragments / p_.num_splits;
    Element* const upper = static_cast<Element*>(p_.out) + row * p_.out_stride + first_column;
#pragma unroll
    for (int n = 0; n < kCount; ++n) {
      const int within = n % kHalfFragments - tiles.split() * part;
      if (within < 0 || within >= part || first_column + n * 8 >= p_.num_columns) continue;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        if (row + half * 8 >= p_.num_rows) continue;
        *reinterpret_cast<uint32_t*>(upper + half * 8 * p_.out_stride + n * 8) =
            Finish<Function>(sums, n, half);
      }
    }
  }
  // Finishes two neighbouring columns.
  template <typename Function>
  __device__ uint32_t Finish(const Sums& sums, int n, int half) const {
    const float(&values)[4] = sums[0][n];
    const int first = 2 * half, second = first + 1;
    if constexpr (!kIsGated<Function>) {
      return PackPair<Element>(values[first], values[second]);
    } else {
      const float(&ups)[4] = sums[0][(n + kHalfFragments) % Shape::kFragments];
      return PackPair<Element>(Gated<Element>(values[first], ups[first], Function()),
                               Gated<Element>(values[second], ups[second], Function()));
    }
  }

  const LargeGemmParams& p_;
  const LargeGemmShared<Shape>& shared_;
};

}  // namespace quire::cuda
