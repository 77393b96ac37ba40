// Decode attention on sm_90a, the kernel template: persistent CTAs, one on each multiprocessor,
// walk through their shares of the plan (decode_plan.h). Two warps load, the others compute a tile
// of 64 keys each, one after another in turn, with a softmax state of their own, which they combine
// at the end of an item. Device code only.
#pragma once

#include <cuda_runtime.h>

#include "kernels/cuda/attention/trtllm/decode_loader.cuh"
#include "kernels/cuda/attention/trtllm/decode_output.cuh"
#include "kernels/cuda/attention/trtllm/decode_queries.cuh"

namespace quire::cuda::trtllm {

// One warp that computes.
template <typename Shape>
class DecodeComputation {
 public:
  __device__ DecodeComputation(const DecodeParams& p, const DecodeShared<Shape>& shared)
      : p_(p),
        shared_(shared),
        results_(p, shared),
        lane_(static_cast<int>(threadIdx.x) % 32),
        split_(static_cast<int>(threadIdx.x) / 32 % p.layout.row_splits),
        turns_(Shape::kWarps / p.layout.row_splits),
        turn_(static_cast<int>(threadIdx.x) / 32 / p.layout.row_splits) {
    stage_.Advance(turn_, p.layout.ring_tiles);
    arrival_.index = turn_;
  }

  __device__ void Run() {
    int32_t num_before = 0;  // tiles of earlier items, modulo turns
    ForEachItem(p_, [&](const DecodeItem& item) {
      Compute(item, (turn_ - num_before) & (turns_ - 1));
      num_before = (num_before + item.num_tiles) & (turns_ - 1);
      ++num_items_;
    });
  }

 private:
  using Operands = DecodeOperands<Shape>;
  using Softmax = DecodeSoftmax<Shape>;
  static constexpr int kFirstTurnBarrier = 1;  // of the warps of a turn

  // This warp takes tile `first` of the item and every turns-th tile after it.
  __device__ void Compute(const DecodeItem& item, int32_t first) {
#pragma unroll
    for (auto& row_tile : out_) {
#pragma unroll
      for (auto& fragment : row_tile) {
#pragma unroll
        for (float& value : fragment) value = 0;
      }
    }
    const DecodeRows rows(p_, item, p_.layout.row_splits * Shape::kWarpRows);
    typename Softmax::PerRow scales;
    DecodeQueries<Shape>::Take(shared_, num_items_, split_, q_, scales);
    softmax_.Start(p_.variant, rows, split_ * Shape::kWarpRows, scales);
    for (int32_t tile = first; tile < item.num_tiles; tile += turns_) {
      ComputeTile((item.first_tile + tile) * kTileKeys, item.seq_len);
      stage_.Advance(turns_, p_.layout.ring_tiles);
      arrival_.Advance(turns_, p_.layout.num_arrivals);
    }
    softmax_.SumOverLanes();
    results_.Combine(item, first * p_.layout.row_splits + split_, softmax_, out_);
  }

  __device__ void ComputeTile(int32_t first_key, int32_t seq_len) {
    typename Softmax::Scores scores = {};
    Wait(shared_.arrived(0, arrival_.index), arrival_.parity);
    Operands::MultiplyKeys(shared_.tile(0, stage_.index), q_, scores);
    Free(0);
    softmax_.MakeLogits(first_key, scores);
    typename Softmax::PerRow rescale;
    if (!softmax_.RaiseMaxima(scores, rescale)) Multiply(rescale);
    softmax_.MakeProbs(scores);
    Wait(shared_.arrived(1, arrival_.index), arrival_.parity);
    if (seq_len - first_key < kTileKeys) ClearValuesFrom(max(seq_len - first_key, 0));
    const uint32_t values = shared_.tile(1, stage_.index);
#pragma unroll
    for (int m = 0; m < Softmax::kFragments; ++m) {
      uint32_t probs[Shape::kRowTiles][2];
#pragma unroll
      for (int n = 0; n < Shape::kRowTiles; ++n) {
        using Operand = typename Operands::Operand;
        probs[n][0] = Transposed(PackPair<Operand>(scores[m][n][0], scores[m][n][1]));
        probs[n][1] = Transposed(PackPair<Operand>(scores[m][n][2], scores[m][n][3]));
      }
      Operands::MultiplyValues(values, m, probs, out_);
    }
    Free(1);
  }

  __device__ void Multiply(const typename Softmax::PerRow& factors) {
#pragma unroll
    for (int n = 0; n < Shape::kRowTiles; ++n) {
#pragma unroll
      for (auto& fragment : out_[n]) {
#pragma unroll
        for (int i = 0; i < 4; ++i) fragment[i] *= factors[n][i & 1];
      }
    }
  }

  // The warp has read the tile of K (0) or V (1).
  __device__ void Free(int kind) const { Arrive(shared_.free(kind, stage_.index)); }

  // What a block holds beyond the sequence may be anything; 0 * NaN would be NaN. Warps that share
  // the tile write the same zeros, before any of them reads it.
  __device__ void ClearValuesFrom(int32_t first) const {
    constexpr int kLinePieces = Shape::kLineBytes / 16;
    for (int block = 0; block < Shape::kLineBlocks; ++block) {
      auto* lines =
          reinterpret_cast<uint4*>(shared_.values_data(stage_.index) + block * Shape::kBlockBytes);
      for (int i = first * kLinePieces + lane_; i < kTileKeys * kLinePieces; i += 32) lines[i] = {};
    }
    FenceSharedWrites();
    SyncSome(kFirstTurnBarrier + turn_, 32 * p_.layout.row_splits);
  }

  const DecodeParams& p_;
  const DecodeShared<Shape>& shared_;
  DecodeResults<Shape> results_;
  const int lane_;
  const int split_;  // which of the unit's rows
  const int32_t turns_;
  const int32_t turn_;
  uint32_t num_items_ = 0;
  RingPlace stage_;    // of the warp's next tile
  RingPlace arrival_;  // the same
  Softmax softmax_;
  typename Operands::Queries q_;
  float out_[Shape::kRowTiles][Shape::kHeadDim / 16][4];
};

template <typename Shape>
__global__ void __launch_bounds__(Shape::kThreads, 1)
    DecodeAttention(const __grid_constant__ DecodeParams p) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  extern __shared__ __align__(1024) uint8_t raw[];
  const DecodeShared<Shape> shared(raw, p.layout);
  shared.InitMbarriers();
  if (threadIdx.x == Shape::kComputeThreads) PrefetchMap(p.k_map);
  if (threadIdx.x == Shape::kComputeThreads + 32) PrefetchMap(p.v_map);
  // Each role waits for the predecessor, and releases the successor, where it must.
  __syncthreads();
  if (threadIdx.x < Shape::kComputeThreads) {
    if constexpr (Shape::kMovesRegisters) TakeRegisters<Shape::kComputeRegisters>();
    DecodeComputation<Shape>(p, shared).Run();
  } else {
    if constexpr (Shape::kMovesRegisters) ReleaseRegisters<Shape::kLoadRegisters>();
    const int warp = (static_cast<int>(threadIdx.x) - Shape::kComputeThreads) / 32;
    if (warp < 2) DecodeLoader<Shape>(p, shared, warp).Run();
    if (warp == 2) DecodeQueries<Shape>::Run(p, shared);
    if (warp == 3 && ElectLane()) DecodeResults<Shape>(p, shared).HandOver();
  }
#endif
}

template <typename Element, int kHeadDim, int kWarpRows>
DecodeKernel GetDecodeKernel() {
  using Shape = DecodeShape<Element, kHeadDim, kWarpRows>;
  return {.function = &DecodeAttention<Shape>,
          .num_threads = Shape::kThreads,
          .num_warps = Shape::kWarps,
          .warp_rows = kWarpRows,
          .tile_bytes = 2 * Shape::kStageBytes,
          .other_bytes = &Shape::OtherBytes};
}

}  // namespace quire::cuda::trtllm
