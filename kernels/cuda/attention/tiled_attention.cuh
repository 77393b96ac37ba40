// Attention of one tile of packed rows on tensor cores, the kernel template. Persistent CTAs take
// items from the work list. K and V are gathered through the page table into shared memory, kStages
// tiles of kTileKeys keys deep, by 16-byte asynchronous copies; a tile of keys begins at a multiple
// of kTileKeys. With kWarpsN > 1 the warps share out a tile's keys, each with a softmax state of
// its own, and combine them in a fixed order at the end. With kWarpsD > 1 warps also share out the
// columns of a head (column_warps.cuh).
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/attention/tiles/column_warps.cuh"
#include "kernels/cuda/attention/tiles/float8_operands.cuh"
#include "kernels/cuda/attention/tiles/softmax_rows.cuh"
#include "kernels/cuda/attention/tiles/tile_output.cuh"
#include "kernels/cuda/attention/tiles/tile_rows.cuh"
#include "kernels/cuda/attention/tiles/tile_shape.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/mma.cuh"

namespace quire::cuda {

// One CTA's computation of one item: everything a thread holds in registers.
template <typename Shape>
class TileComputation {
 public:
  __device__ TileComputation(const TiledParams& p, const TileItem& item, uint8_t* shared)
      : p_(p),
        item_(item),
        shared_(shared),
        queries_(static_cast<uint32_t>(__cvta_generic_to_shared(shared))),
        offsets_(reinterpret_cast<int64_t*>(shared + Shape::kOffsetsAt)),
        warp_m_(threadIdx.x / 32 % Shape::kWarpsM),
        warp_n_(threadIdx.x / 32 / Shape::kWarpsM % Shape::kWarpsN),
        warp_d_(threadIdx.x / 32 / (Shape::kWarpsM * Shape::kWarpsN)),
        lane_(threadIdx.x % 32),
        softmax_(p, item, warp_m_ * 16 * Shape::kRowTiles + lane_ / 4),
        first_tile_(item.key_begin / Shape::kTileKeys),
        num_tiles_(item.key_end > item.key_begin
                       ? (item.key_end - 1) / Shape::kTileKeys + 1 - first_tile_
                       : 0) {
#pragma unroll
    for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
      for (int n = 0; n < Shape::kWarpColumns / 8; ++n) {
#pragma unroll
        for (int i = 0; i < 4; ++i) out_[m][n][i] = 0;
      }
    }
  }

  // Sends for the queries and the first keys.
  __device__ void Start() {
    for (int i = threadIdx.x; i < Shape::kStages * Shape::kTileKeys; i += Shape::kThreads) {
      offsets_[i] = OffsetOf(BlockOf(KeyAt(i)), KeyAt(i));
    }
    __syncthreads();
    if constexpr (!Shape::kIsFloat8) LoadQueries();
#pragma unroll
    for (int tile = 0; tile < kAhead; ++tile) {
      if (tile < num_tiles_) LoadKeys(tile);
      CommitCopies();
    }
    if constexpr (Shape::kIsFloat8) {
      float8_.LoadQueries(p_, item_, warp_m_ * 16, warp_d_ * Shape::kWarpColumns);
    }
  }

  // Visits all keys, then leaves the result in global memory.
  __device__ void Finish() {
    if constexpr (Shape::kIsFloat8) {
      const float k_scale = p_.k_scales == nullptr ? 1.0f : p_.k_scales[item_.kv_head];
      const float query_scale = float8_.ConvertQueries(p_);
      column_warps_.SetPartScale(query_scale);
      softmax_.ScaleScores(p_, (Shape::kWarpsD == 1 ? query_scale : 1.0f) * k_scale);
    }
    for (int tile = 0; tile < num_tiles_; ++tile) {
      WaitForCopies<kAhead - 1>();
      __syncthreads();
      if (tile + kAhead < num_tiles_) LoadKeys(tile + kAhead);
      CommitCopies();
      // The block id for the load after that arrives while this tile is computed.
      const bool locates = threadIdx.x < Shape::kTileKeys;
      const int32_t key = KeyAt((tile + Shape::kStages) * Shape::kTileKeys + threadIdx.x);
      const int32_t block = locates ? BlockOf(key) : kNoBlock;
      Compute(tile);
      if (locates) OffsetsOf(tile)[threadIdx.x] = OffsetOf(block, key);
    }
    WaitForCopies<0>();
    __syncthreads();
    softmax_.SumOverLanes();
    TileOutput<Shape>(p_, item_, shared_ + Shape::kStagesAt)
        .Write(out_, softmax_.maxima(), softmax_.sums(), softmax_.log2_scale());
  }

 private:
  using Element = typename Shape::Element;
  using Kv = typename Shape::Kv;
  struct Nothing {};
  static constexpr int kAhead = Shape::kStages - 1;  // tiles of keys on their way
  static constexpr int kSteps = Shape::kWarpColumns / 16;

  // Of 16 columns, those of this warp.
  __device__ int FirstStep() const { return Shape::kWarpsD == 1 ? 0 : warp_d_ * kSteps; }

  __device__ int32_t KeyAt(int32_t i) const { return first_tile_ * Shape::kTileKeys + i; }
  __device__ int64_t* OffsetsOf(int tile) const {
    return offsets_ + tile % Shape::kStages * Shape::kTileKeys;
  }
  __device__ uint32_t StageOf(int tile) const {
    return queries_ + Shape::kStagesAt + tile % Shape::kStages * Shape::kStageBytes;
  }

  __device__ int32_t BlockOf(int32_t key) const {
    if (key < item_.key_begin || key >= item_.key_end) return kNoBlock;
    return p_.pages.kv_indices[item_.first_page + (key >> p_.block_shift)];
  }

  // Where the key's row begins in the cache, in elements; -1 for a key that is not to be read.
  __device__ int64_t OffsetOf(int32_t block, int32_t key) const {
    if (block < 0) return -1;
    const int32_t within = key & ((1 << p_.block_shift) - 1);
    return block * p_.block_stride + within * p_.token_stride + item_.kv_head * p_.head_stride;
  }

  // A thread copies the same 16 bytes of every row; zeros where they lie beyond the head.
  static __device__ int Piece() {
    static_assert(Shape::kThreads % Shape::kRowPieces == 0);
    return threadIdx.x % Shape::kRowPieces;
  }
  __device__ bool HasColumn() const { return Piece() * Shape::kPieceElements < p_.head_dim; }
  __device__ int ColumnOr0() const { return HasColumn() ? Piece() * Shape::kPieceElements : 0; }

  __device__ void LoadQueries() {
    const auto* q = static_cast<const Element*>(p_.q) + ColumnOr0();
    for (int i = threadIdx.x; i < Shape::kTileRows * Shape::kRowPieces; i += Shape::kThreads) {
      const int row = i / Shape::kRowPieces;
      const bool has_row = row < item_.num_rows;
      const int32_t source = has_row ? row : 0;
      CopyAsync16(queries_ + Shape::Swizzle(row, Piece()),
                  q + item_.TokenOf(source) * p_.q_row_stride + item_.HeadOf(source) * p_.head_dim,
                  has_row && HasColumn());
    }
  }

  __device__ void LoadKeys(int tile) {
    constexpr int kCopies = Shape::kTileKeys * Shape::kRowPieces / Shape::kThreads;
    const auto* k = static_cast<const Kv*>(p_.k) + ColumnOr0();
    const auto* v = static_cast<const Kv*>(p_.v) + ColumnOr0();
    const int64_t* offsets = OffsetsOf(tile);
    const uint32_t stage = StageOf(tile);
#pragma unroll
    for (int i = 0; i < kCopies; ++i) {
      const int row = (i * Shape::kThreads + threadIdx.x) / Shape::kRowPieces;
      const bool has_row = offsets[row] >= 0;
      const bool valid = has_row && HasColumn();
      const int64_t from = has_row ? offsets[row] : 0;
      const uint32_t to = stage + Shape::Swizzle(row, Piece());
      CopyAsync16(to, k + from, valid);
      CopyAsync16(to + Shape::kStageBytes / 2, v + from, valid);
    }
  }

  __device__ void Compute(int tile) {
    float scores[Shape::kRowTiles][Shape::kWarpKeys / 8][4] = {};
    const uint32_t keys = StageOf(tile);
    if constexpr (Shape::kIsFloat8) {
      DispatchFloat8(p_.kv_dtype, [&]<__nv_fp8_interpretation_t kFormat>() {
        float8_.template MultiplyByKeys<kFormat>(keys, warp_n_ * Shape::kWarpKeys, FirstStep(),
                                                 scores);
      });
    } else {
      MultiplyQueriesByKeys(keys, scores);
    }
    column_warps_.Sum(shared_ + Shape::kSumsAt, warp_d_, scores);
    const int32_t first_key = KeyAt(tile * Shape::kTileKeys) + warp_n_ * Shape::kWarpKeys;
    if (p_.variant.ChangesLogits()) softmax_.ChangeLogits(scores);
    if (first_key < max(item_.all_begin, item_.key_begin) ||
        first_key + Shape::kWarpKeys > min(item_.all_end, item_.key_end)) {
      softmax_.Mask(first_key + lane_ % 4 * 2, scores);
    }
    float rescale[Shape::kRowTiles][2];
    softmax_.RaiseMaxima(scores, rescale);
    softmax_.template MakeProbs<0, Shape::kWarpKeys / 8>(scores);
    softmax_.Multiply(rescale, out_);
    const uint32_t values = keys + Shape::kStageBytes / 2;
    if constexpr (Shape::kIsFloat8) {
      DispatchFloat8(p_.kv_dtype, [&]<__nv_fp8_interpretation_t kFormat>() {
        float8_.template AddProbsTimesValues<kFormat>(values, warp_n_ * Shape::kWarpKeys,
                                                      FirstStep(), scores, out_);
      });
    } else {
      AddProbsTimesValues(values, scores);
    }
  }

  template <typename Scores>
  __device__ void MultiplyQueriesByKeys(uint32_t keys, Scores& scores) {
    const int matrix = lane_ / 8;
    const int in_matrix = lane_ % 8;
#pragma unroll
    for (int d = 0; d < kSteps; ++d) {
      uint32_t q[Shape::kRowTiles][4];
#pragma unroll
      for (int m = 0; m < Shape::kRowTiles; ++m) {
        const int row = (warp_m_ * Shape::kRowTiles + m) * 16 + (matrix & 1) * 8 + in_matrix;
        LoadMatrices(queries_ + Shape::Swizzle(row, 2 * (FirstStep() + d) + (matrix >> 1)), q[m]);
      }
#pragma unroll
      for (int n = 0; n < Shape::kWarpKeys / 16; ++n) {
        uint32_t k[4];
        const int row = warp_n_ * Shape::kWarpKeys + n * 16 + (matrix >> 1) * 8 + in_matrix;
        LoadMatrices(keys + Shape::Swizzle(row, 2 * (FirstStep() + d) + (matrix & 1)), k);
#pragma unroll
        for (int m = 0; m < Shape::kRowTiles; ++m) {
          MultiplyAdd<Element>(q[m], k[0], k[1], scores[m][2 * n]);
          MultiplyAdd<Element>(q[m], k[2], k[3], scores[m][2 * n + 1]);
        }
      }
    }
  }

  template <typename Scores>
  __device__ void AddProbsTimesValues(uint32_t values, const Scores& probs) {
    const int matrix = lane_ / 8;
#pragma unroll
    for (int k = 0; k < Shape::kWarpKeys / 16; ++k) {
      uint32_t w[Shape::kRowTiles][4];
#pragma unroll
      for (int m = 0; m < Shape::kRowTiles; ++m) {
        const auto& low = probs[m][2 * k];
        const auto& high = probs[m][2 * k + 1];
        w[m][0] = PackPair<Element>(low[0], low[1]);
        w[m][1] = PackPair<Element>(low[2], low[3]);
        w[m][2] = PackPair<Element>(high[0], high[1]);
        w[m][3] = PackPair<Element>(high[2], high[3]);
      }
      const int row = warp_n_ * Shape::kWarpKeys + k * 16 + (matrix & 1) * 8 + lane_ % 8;
#pragma unroll
      for (int d = 0; d < kSteps; ++d) {
        uint32_t v[4];
        LoadMatricesTransposed(values + Shape::Swizzle(row, 2 * (FirstStep() + d) + (matrix >> 1)),
                               v);
#pragma unroll
        for (int m = 0; m < Shape::kRowTiles; ++m) {
          MultiplyAdd<Element>(w[m], v[0], v[1], out_[m][2 * d]);
          MultiplyAdd<Element>(w[m], v[2], v[3], out_[m][2 * d + 1]);
        }
      }
    }
  }

  const TiledParams& p_;
  const TileItem& item_;
  uint8_t* const shared_;
  const uint32_t queries_;  // shared addresses as the instructions take them
  int64_t* const offsets_;
  const int warp_m_;
  const int warp_n_;
  const int warp_d_;
  const int lane_;
  SoftmaxRows<Shape::kRowTiles> softmax_;
  const int32_t first_tile_;  // of keys
  const int32_t num_tiles_;
  [[no_unique_address]] ColumnWarps<Shape> column_warps_;
  float out_[Shape::kRowTiles][Shape::kWarpColumns / 8][4];
  std::conditional_t<Shape::kIsFloat8, Float8Operands<Shape>, Nothing> float8_;
};

// The item that a CTA computes after this one, taken while the first keys are on their way.
struct NextItem {
  int32_t index;
  WorkItem work;

  __device__ void Take(const TiledParams& p, int32_t num_items) {
    index = gridDim.x + atomicAdd(&p.work.state->next, 1);
    if (index < num_items) work = p.work.items[index / p.num_kv_heads];
  }
};

// On sm_90a, hopper_attention.cuh computes prefill of heads of up to 256. Machine code that never
// runs there is left out, except in tests.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(QUIRE_PORTABLE_PREFILL)
inline constexpr bool kHasPrefillTiles = false;
#else
inline constexpr bool kHasPrefillTiles = true;
#endif

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kMinCtas)
    TiledAttention(const __grid_constant__ TiledParams p) {
  constexpr bool kIsPrefill = Shape::kWarpsN == 1;
  if constexpr (kIsPrefill && Shape::kHeadDim <= 256 && !kHasPrefillTiles) return;
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ NextItem next;
  // The next kernel's CTAs would crowd onto the multiprocessors whose CTAs found no item: it is not
  // released before this one's end.
  WaitForPredecessor();
  const int32_t num_items = p.work.state->num_items * p.num_kv_heads;
  int32_t index = blockIdx.x;
  WorkItem work = {};
  if (index < num_items) work = p.work.items[index / p.num_kv_heads];
  while (index < num_items) {
    const TileItem item = MakeItem(p, work, index % p.num_kv_heads);
    TileComputation<Shape> computation(p, item, shared);
    computation.Start();
    if (threadIdx.x == 0) next.Take(p, num_items);
    computation.Finish();
    __syncthreads();
    index = next.index;
    work = next.work;
  }
  if (threadIdx.x == 0 && atomicAdd(&p.work.state->finished, 1) == gridDim.x - 1) {
    p.work.state->next = 0;
    p.work.state->finished = 0;
  }
}

template <typename Shape>
TiledKernel MakeTiledKernel() {
  return {.function = reinterpret_cast<void (*)()>(&TiledAttention<Shape>),
          .head_dim = Shape::kHeadDim,
          .tile_rows = Shape::kTileRows,
          .num_threads = Shape::kThreads,
          .shared_bytes = Shape::kSharedBytes};
}

template <typename Element, int kHeadDim>
TiledKernel DecodeKernel() {
  if constexpr (kHeadDim == 512) {
    return MakeTiledKernel<TileShape<Element, Element, kHeadDim, 1, 2, 1, 32, 3, 1, 2>>();
  } else {
    constexpr int kStages = kHeadDim == 64 ? 4 : kHeadDim == 128 ? 2 : 3;
    constexpr int kCtasPerSm = kHeadDim == 256 ? 1 : 3;
    return MakeTiledKernel<
        TileShape<Element, Element, kHeadDim, 1, 4, 1, 64, kStages, kCtasPerSm>>();
  }
}

template <int kHeadDim>
TiledKernel Float8DecodeKernel() {
  if constexpr (kHeadDim == 512) {
    return MakeTiledKernel<TileShape<__half, Float8Bits, kHeadDim, 1, 2, 1, 64, 3, 1, 2>>();
  } else {
    constexpr int kKeys = kHeadDim == 256 ? 64 : 128;
    constexpr int kStages = kHeadDim == 64 ? 4 : kHeadDim == 128 ? 2 : 3;
    constexpr int kCtasPerSm = kHeadDim == 256 ? 2 : 3;
    return MakeTiledKernel<
        TileShape<__half, Float8Bits, kHeadDim, 1, 4, 1, kKeys, kStages, kCtasPerSm>>();
  }
}

template <typename Element, int kHeadDim>
TiledKernel PrefillKernel() {
  if constexpr (kHeadDim == 512) {
    return MakeTiledKernel<TileShape<Element, Element, kHeadDim, 4, 1, 1, 32, 2, 1, 2>>();
  } else if constexpr (kHeadDim == 256) {
    return MakeTiledKernel<TileShape<Element, Element, kHeadDim, 8, 1, 1, 64, 2, 1>>();
  } else {
    return MakeTiledKernel<TileShape<Element, Element, kHeadDim, 4, 1, 2, 64, 2, 2>>();
  }
}

template <int kHeadDim>
TiledKernel Float8PrefillKernel() {
  return MakeTiledKernel<TileShape<__half, Float8Bits, kHeadDim, 4, 1, 1, 32, 3, 1, 2>>();
}

}  // namespace quire::cuda
