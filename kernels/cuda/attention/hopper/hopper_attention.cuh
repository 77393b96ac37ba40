// Prefill attention on sm_90a, the kernel template, after FlashAttention-3: persistent CTAs, one
// warpgroup loads (hopper_loader.cuh), the others compute with wgmma. While a tile of keys is
// multiplied by its values, the next tile's scores are made probs; and the groups take turns at
// issuing gemms, so that one's softmax runs under the other's gemms. Device code only.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/attention/hopper/hopper_loader.cuh"
#include "kernels/cuda/attention/tiles/half_queries.cuh"
#include "kernels/cuda/attention/tiles/softmax_rows.cuh"
#include "kernels/cuda/attention/tiles/tile_output.cuh"
#include "kernels/cuda/runtime/launch.cuh"
#include "kernels/cuda/runtime/wgmma.cuh"

namespace quire::cuda {

// A computing warpgroup's work on one item.
template <typename Shape>
class HopperComputation {
 public:
  // `num_items` and `num_tiles` (of keys) are what this thread has seen before.
  __device__ HopperComputation(const HopperParams& p, const TileItem& item,
                               const HopperShared<Shape>& shared, uint32_t num_items,
                               uint32_t& num_tiles)
      : p_(p.tiled),
        item_(item),
        shared_(shared),
        queries_use_(num_items),
        num_seen_(num_tiles),
        group_(Uniform(Shape::ComputeThread() / Shape::kGroupThreads)),
        lane_(threadIdx.x % 32),
        softmax_(p.tiled, item, Shape::ComputeThread() / 32 * 16 + lane_ / 4),
        all_begin_(max(item.all_begin, item.key_begin)),
        all_end_(min(item.all_end, item.key_end)),
        first_tile_(item.key_begin / Shape::kTileKeys),
        num_tiles_(item.key_end > item.key_begin
                       ? (item.key_end - 1) / Shape::kTileKeys + 1 - first_tile_
                       : 0) {
#pragma unroll
    for (auto& fragment : out_[0]) {
#pragma unroll
      for (float& value : fragment) value = 0;
    }
  }

  __device__ void Run() {
    Wait(shared_.queries_full(queries_use_.stage), queries_use_.parity);
    if constexpr (Shape::kIsFloat8) {
      float scale = num_tiles_ > 0 ? ConvertQueries() : 1.0f;
      if (p_.k_scales != nullptr) scale *= p_.k_scales[item_.kv_head];
      softmax_.ScaleScores(p_, scale);
    }
    if (num_tiles_ > 0) VisitKeys();
    if (num_tiles_ == 0 && lane_ == 0) Arrive(shared_.queries_free(queries_use_.stage));
    num_seen_ += num_tiles_;
    softmax_.SumOverLanes();
    softmax_.Unscale(out_);
    TileOutput<Shape>(p_, item_, nullptr)
        .Write(out_, softmax_.maxima(), softmax_.sums(), softmax_.log2_scale());
  }

 private:
  static constexpr int kScoreFragments = Shape::kTileKeys / 8;
  using Scores = float[1][kScoreFragments][4];
  static constexpr int kProbsDepth = 16 * 2 / Shape::kOperandBytes;  // keys of a gemm
  using Probs = uint32_t[Shape::kTileKeys / kProbsDepth][4];
  // Gemms of 8-bit elements have fewer bits for sums than float32: a tile's are added up apart.
  using Out = float[1][Shape::kHeadDim / 8][4];

  __device__ void VisitKeys() {
    Scores scores;
    Probs probs;
    [[maybe_unused]] Out part;
    float rescale[1][2];
    Out& sums = SumsOf(part);
    WaitForKeys(0);
    StartScores(0, scores);
    WaitForGemms<0>(scores);
    FreeKeys(0);
    MaskAndRaiseMaxima(0, scores, rescale);
    softmax_.template MakeProbs<0, kScoreFragments>(scores);
    Pack(scores, probs);
    for (int32_t tile = 1; tile < num_tiles_; ++tile) {
      WaitForKeys(tile);
      TakeTurn();
      StartScores(tile, scores);
      if constexpr (!Shape::kHasFloat8Gemms) softmax_.Multiply(rescale, out_);
      WaitForValues(tile - 1);
      StartSums(tile - 1, probs, sums);
      PassTurn();
      WaitForGemms<1>(scores);
      FreeKeys(tile);
      const float part_rescale[1][2] = {{rescale[0][0], rescale[0][1]}};
      MaskAndRaiseMaxima(tile, scores, rescale);
      softmax_.template MakeProbs<0, kScoreFragments>(scores);
      HoldUntil(softmax_.sums()[0][0] + softmax_.sums()[0][1]);
      WaitForGemms<0>(sums);
      FreeValues(tile - 1);
      if constexpr (Shape::kHasFloat8Gemms) softmax_.MultiplyAdd(part_rescale, part, out_);
      Pack(scores, probs);
    }
    const int32_t last = num_tiles_ - 1;
    if constexpr (!Shape::kHasFloat8Gemms) softmax_.Multiply(rescale, out_);
    WaitForValues(last);
    if constexpr (!Shape::kHasFloat8Gemms) ClearValuesBeyondSequence(last);
    StartSums(last, probs, sums);
    WaitForGemms<0>(sums);
    FreeValues(last);
    if constexpr (Shape::kHasFloat8Gemms) softmax_.MultiplyAdd(rescale, part, out_);
  }

  // What a tile's probs and values are added to.
  __device__ Out& SumsOf([[maybe_unused]] Out& part) {
    if constexpr (Shape::kHasFloat8Gemms) {
      return part;
    } else {
      return out_;
    }
  }

  // The group's queries become what gemms multiply, in place: what scores are then to be multiplied
  // by.
  __device__ float ConvertQueries() const {
    if constexpr (Shape::kHasFloat8Gemms) return NarrowQueries();
    if (p_.query_dtype == DType::kF16) return 1;
    constexpr int kRowsBytes = 64 * Shape::kLineBytes;  // of a block
    constexpr int kPieces = kRowsBytes / 16 / Shape::kGroupThreads;
    const int thread = Shape::ComputeThread() % Shape::kGroupThreads;
    const uint32_t first = queries_at() + group_ * kRowsBytes + thread * 16;
    uint32_t largest = 0;
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const uint4 piece = LoadShared16(QueryPiece(first, block, i));
        largest = LargerMagnitudes(LargerMagnitudes(largest, piece.x), piece.y);
        largest = LargerMagnitudes(LargerMagnitudes(largest, piece.z), piece.w);
      }
    }
    const HalfScale scale(LargestOfGroup(LargestOfWarp(largest)));
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const uint32_t at = QueryPiece(first, block, i);
        const uint4 piece = LoadShared16(at);
        StoreShared16(at, {scale.Convert(piece.x), scale.Convert(piece.y), scale.Convert(piece.z),
                           scale.Convert(piece.w)});
      }
    }
    FenceSharedWrites();
    SyncGroup();
    return scale.inverse;
  }
  __device__ uint32_t queries_at() const {
    return shared_.queries(Shape::kQueryStages > 1 ? Uniform(queries_use_.stage) : 0);
  }
  static __device__ uint32_t QueryPiece(uint32_t first, int block, int i) {
    return first + block * Shape::kTileRows * Shape::kLineBytes + i * Shape::kGroupThreads * 16;
  }
  // As e4m3. A row's elements, two lines of 128 bytes before, become one: a thread has pieces of
  // eight elements at the same place of several rows.
  __device__ float NarrowQueries() const {
    constexpr int kPieces = 64 * Shape::kLineBytes / 16 / Shape::kGroupThreads;
    const int thread = Shape::ComputeThread() % Shape::kGroupThreads;
    const uint32_t group_at = queries_at() + group_ * 64 * Shape::kLineBytes;
    uint4 pieces[Shape::kBlocks][kPieces];
    uint32_t largest = 0;
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const uint4 piece = LoadShared16(QueryPiece(group_at + thread * 16, block, i));
        largest = LargerMagnitudes(LargerMagnitudes(largest, piece.x), piece.y);
        largest = LargerMagnitudes(LargerMagnitudes(largest, piece.z), piece.w);
        pieces[block][i] = piece;
      }
    }
    const Float8Scale scale(LargestOfGroup(LargestOfWarp(largest)), p_.query_dtype == DType::kF16);
    const int first_row = thread / 8;
    const int piece = thread % 8 ^ first_row % 8;  // of a line, as it was before the swizzle
#pragma unroll
    for (int block = 0; block < Shape::kBlocks; ++block) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        const uint4& wide = pieces[block][i];
        const int row = first_row + i * (Shape::kGroupThreads / 8);
        StoreShared8(group_at + Shape::Swizzle(row, block * 4 + piece / 2) + piece % 2 * 8,
                     {scale.Convert(wide.x, wide.y), scale.Convert(wide.z, wide.w)});
      }
    }
    FenceSharedWrites();
    SyncGroup();
    return scale.inverse;
  }
  // The largest of the four warps' values.
  __device__ uint32_t LargestOfGroup(uint32_t value) const {
    __shared__ uint32_t values[Shape::kComputeWarps];
    const int warp = Shape::ComputeThread() / 32;
    if (lane_ == 0) values[warp] = value;
    SyncGroup();
    uint32_t largest = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) largest = max(largest, values[warp / 4 * 4 + i]);
    return largest;
  }
  __device__ void SyncGroup() const {
    SyncSome(Shape::TurnBarrier(Shape::kComputeGroups + group_), Shape::kGroupThreads);
  }

  __device__ RingUse<Shape::kStages> UseOf(int32_t tile) const {
    return RingUse<Shape::kStages>(num_seen_ + tile);
  }
  __device__ void WaitForKeys(int32_t tile) const {
    Wait(shared_.keys_full(UseOf(tile).stage), UseOf(tile).parity);
  }
  __device__ void WaitForValues(int32_t tile) const {
    Wait(shared_.values_full(UseOf(tile).stage), UseOf(tile).parity);
  }
  // The last tile's keys are also the last use of the queries.
  __device__ void FreeKeys(int32_t tile) const {
    if (lane_ != 0) return;
    Arrive(shared_.keys_free(UseOf(tile).stage));
    if (tile == num_tiles_ - 1) Arrive(shared_.queries_free(queries_use_.stage));
  }
  __device__ void FreeValues(int32_t tile) const {
    if (lane_ == 0) Arrive(shared_.values_free(UseOf(tile).stage));
  }

  // The groups' gemms come one group after another.
  __device__ void TakeTurn() const {
    SyncSome(Shape::TurnBarrier(group_), 2 * Shape::kGroupThreads);
  }
  __device__ void PassTurn() const {
    ArriveSome(Shape::TurnBarrier((group_ + 1) % Shape::kComputeGroups), 2 * Shape::kGroupThreads);
  }

  __device__ void StartScores(int32_t tile, Scores& scores) const {
    const uint64_t queries =
        DescribeMatrix(queries_at() + group_ * 64 * Shape::kLineBytes, 8 * Shape::kLineBytes, 0);
    const uint64_t keys =
        DescribeMatrix(shared_.keys(Uniform(UseOf(tile).stage)), 8 * Shape::kLineBytes, 0);
    FenceGemms();
#pragma unroll
    for (int d = 0; d < 4 * Shape::kKeyBlocks; ++d) {
      const int block = d / 4;
      const int within = d % 4 * 32;
      const uint64_t first =
          Advance(queries, block * Shape::kTileRows * Shape::kLineBytes + within);
      const uint64_t second = Advance(keys, block * Shape::kTileKeys * Shape::kLineBytes + within);
      if constexpr (Shape::kHasFloat8Gemms) {
        StartFloat8Dot(first, second, d > 0, scores);
      } else {
        StartDot<typename Shape::Element>(first, second, d > 0, scores);
      }
    }
    CommitGemms();
  }

  // Adds to `sums`. With gemms of 8 bits these are the sums of this tile only.
  __device__ void StartSums(int32_t tile, const Probs& probs, Out& sums) const {
    const uint64_t values =
        DescribeMatrix(shared_.values(Uniform(UseOf(tile).stage)), 8 * Shape::kLineBytes,
                       Shape::kTileKeys * Shape::kLineBytes);
    FenceGemms();
#pragma unroll
    for (int k = 0; k < Shape::kTileKeys / kProbsDepth; ++k) {
      if constexpr (Shape::kHasFloat8Gemms) {
        StartFloat8Dot(probs[k], Advance(values, k * kProbsDepth), k > 0, sums);
      } else {
        StartDot<typename Shape::Element>(probs[k], Advance(values, k * 16 * Shape::kLineBytes),
                                          sums);
      }
    }
    CommitGemms();
  }

  __device__ void MaskAndRaiseMaxima(int32_t tile, Scores& scores, float (&rescale)[1][2]) {
    const int32_t first_key = (first_tile_ + tile) * Shape::kTileKeys;
    if (p_.variant.ChangesLogits()) softmax_.ChangeLogits(scores);
    if (first_key < all_begin_ || first_key + Shape::kTileKeys > all_end_) {
      softmax_.Mask(first_key + lane_ % 4 * 2, scores);
    }
    softmax_.RaiseMaxima(scores, rescale);
  }

  static __device__ void Pack(const Scores& scores, Probs& probs) {
    if constexpr (Shape::kHasFloat8Gemms) {
      PackFloat8(scores, probs);
    } else {
      PackElements(scores, probs);
    }
  }
  // Keys in the order of transposed_values.cuh.
  static __device__ void PackFloat8(const Scores& scores, Probs& probs) {
#pragma unroll
    for (int k = 0; k < Shape::kTileKeys / 32; ++k) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const auto& low = scores[0][4 * k + i / 2 * 2];
        const auto& high = scores[0][4 * k + i / 2 * 2 + 1];
        const int at = i % 2 * 2;
        probs[k][i] = NarrowPair<__NV_E4M3>(low[at], low[at + 1]) |
                      NarrowPair<__NV_E4M3>(high[at], high[at + 1]) << 16;
      }
    }
  }
  static __device__ void PackElements(const Scores& scores, Probs& probs) {
    using Element = typename Shape::Element;
#pragma unroll
    for (int k = 0; k < Shape::kTileKeys / 16; ++k) {
      const auto& low = scores[0][2 * k];
      const auto& high = scores[0][2 * k + 1];
      probs[k][0] = PackPair<Element>(low[0], low[1]);
      probs[k][1] = PackPair<Element>(low[2], low[3]);
      probs[k][2] = PackPair<Element>(high[0], high[1]);
      probs[k][3] = PackPair<Element>(high[2], high[3]);
    }
  }

  // What a block holds beyond the sequence may be anything; 0 * NaN would be NaN. Only the last
  // tile can have it. The groups write the same zeros.
  __device__ void ClearValuesBeyondSequence(int32_t tile) const {
    const int32_t num_valid = item_.seq_len - (first_tile_ + tile) * Shape::kTileKeys;
    if (num_valid >= Shape::kTileKeys) return;
    uint8_t* values = shared_.values_data(UseOf(tile).stage);
    constexpr int kLinePieces = Shape::kLineBytes / 16;
    for (int block = 0; block < Shape::kBlocks; ++block) {
      auto* lines = reinterpret_cast<uint4*>(values + block * Shape::kTileKeys * Shape::kLineBytes);
      for (int i = num_valid * kLinePieces + Shape::ComputeThread() % Shape::kGroupThreads;
           i < Shape::kTileKeys * kLinePieces; i += Shape::kGroupThreads) {
        lines[i] = {};
      }
    }
    FenceSharedWrites();
    SyncGroup();
  }

  const TiledParams& p_;
  const TileItem& item_;
  const HopperShared<Shape>& shared_;
  const RingUse<Shape::kQueryStages> queries_use_;
  uint32_t& num_seen_;
  const int group_;
  const int lane_;
  // The largest prob is 256 in gemms of e4m3, which holds up to 448.
  SoftmaxRows<1, Shape::kHasFloat8Gemms ? 8 : 0> softmax_;
  const int32_t all_begin_, all_end_;  // the keys that every row sees, of this item's
  const int32_t first_tile_;           // of keys
  const int32_t num_tiles_;
  Out out_;
};

// A computing warpgroup.
template <typename Shape>
__device__ void ComputeItems(const HopperParams& p, const HopperShared<Shape>& shared) {
  uint32_t num_tiles = 0;
  // The first group may begin.
  if (Shape::ComputeThread() >= Shape::kComputeThreads - Shape::kGroupThreads) {
    ArriveSome(Shape::TurnBarrier(0), 2 * Shape::kGroupThreads);
  }
  for (uint32_t n = 0;; ++n) {
    const RingUse<2> use(n);
    Wait(shared.item_full(use.stage), use.parity);
    // It stays there until it is done: registers are short.
    const ScheduledItem& scheduled = shared.item(use.stage);
    if (!scheduled.has_item) break;
    HopperComputation<Shape>(p, scheduled.item, shared, n, num_tiles).Run();
    Arrive(shared.item_free(use.stage));
  }
}

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    HopperAttention(const __grid_constant__ HopperParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ uint8_t raw[];
  const HopperShared<Shape> shared(raw);
  if (threadIdx.x == 0) shared.InitMbarriers();
  if (!p.waits_last) WaitForPredecessor();
  // Not before: what a successor that waits last reads must be there. It finds no room earlier.
  ReleaseSuccessor();
  __syncthreads();
  if (threadIdx.x >= Shape::kGroupThreads) {
    TakeRegisters<Shape::kComputeRegisters>();
    ComputeItems(p, shared);
    if (p.waits_last) WaitForPredecessor();
  } else {
    ReleaseRegisters<Shape::kLoadRegisters>();
    if (threadIdx.x < 32) {
      ScheduleAndLoadKeys(p, shared);
    } else if (threadIdx.x < 64) {
      LoadValues(p, shared);
    } else {
      LoadQueries(p.tiled, shared);
    }
  }
#endif
}

template <typename Shape>
TiledKernel MakeHopperKernel() {
  // The loading warps then bring tiles into the swizzled form.
  constexpr bool kIsRaw = Shape::kIsFloat8 && !Shape::kHasFloat8Gemms;
  return {.function = reinterpret_cast<void (*)()>(&HopperAttention<Shape>),
          .head_dim = Shape::kHeadDim,
          .tile_rows = Shape::kTileRows,
          .num_threads = Shape::kThreads,
          .shared_bytes = Shape::kSharedBytes,
          .map_tokens = Shape::kTileKeys,
          .map_columns = kIsRaw ? Shape::kHeadDim : Shape::kLineBytes / Shape::kOperandBytes,
          .map_swizzled = !kIsRaw};
}

template <typename Element, int kHeadDim>
TiledKernel HopperPrefillKernel() {
  constexpr int kKeys = kHeadDim == 256 ? 64 : 128;
  constexpr int kGroups = kHeadDim == 64 ? 3 : 2;
  constexpr int kStages = kHeadDim == 64 ? 4 : 2;
  return MakeHopperKernel<HopperShape<Element, kHeadDim, kKeys, kGroups, kStages>>();
}

template <int kHeadDim>
TiledKernel Float8HopperPrefillKernel() {
  constexpr int kKeys = kHeadDim == 256 ? 64 : 128;
  constexpr int kGroups = kHeadDim == 64 ? 3 : 2;
  constexpr int kStages = 2;
  constexpr int kRawStages = kHeadDim == 64 ? 3 : kHeadDim == 128 ? 2 : 1;
  return MakeHopperKernel<HopperShape<__half, kHeadDim, kKeys, kGroups, kStages, kRawStages>>();
}

// A template so that only its own file compiles it.
template <int kHeadDim>
TiledKernel MakeFloat8GemmsKernel() {
  constexpr int kKeys = 128, kGroups = 2, kStages = 3, kRawStages = 3;
  return MakeHopperKernel<
      HopperShape<__half, kHeadDim, kKeys, kGroups, kStages, kRawStages, true>>();
}

}  // namespace quire::cuda
