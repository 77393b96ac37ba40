// What becomes of a tile's result: the softmax states of the warps, then of the chunks, are
// combined in a fixed order, so that a result's bits do not depend on which CTA came last. The CTA
// that finishes a tile's last chunk merges them all. Device code only.
#pragma once

#include <cuda_bf16.h>

#include "kernels/cuda/attention/softmax_state.cuh"
#include "kernels/cuda/attention/tile_rows.cuh"

namespace quire::cuda {

// Partial results of the same rows, one per source.
struct PartialResults {
  const float* out;  // [sources, rows, head_dim], sources source_rows rows apart
  const float2* state;
  int64_t source_rows;
  int32_t num_sources;
};

template <typename Shape>
class TileOutput {
 public:
  // `shared` is free for use.
  __device__ TileOutput(const TiledParams& p, const TileItem& item, uint8_t* shared)
      : p_(p), item_(item), shared_(shared) {}

  // From the registers of tiled_attention.cuh: raw maxima, to be multiplied by log2_scale.
  template <typename Out, typename PerRow>
  __device__ void Write(const Out& out, const PerRow& max, const PerRow& sum, float log2_scale) {
    const int lane = threadIdx.x % 32;
    const int warp_m = threadIdx.x / 32 % Shape::kWarpsM;
    const int warp_n = threadIdx.x / 32 / Shape::kWarpsM;
#pragma unroll
    for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = (warp_m * Shape::kRowTiles + m) * 16 + half * 8 + lane / 4;
        const float2 state = {max[m][half] * log2_scale, sum[m][half]};
        if (row >= item_.num_rows) continue;
        if (lane % 4 == 0) StoreState(warp_n, row, state);
#pragma unroll
        for (int n = 0; n < Shape::kHeadDim / 8; ++n) {
          Store(warp_n, row, n * 8 + lane % 4 * 2, {out[m][n][2 * half], out[m][n][2 * half + 1]},
                state);
        }
      }
    }
    if constexpr (Shape::kWarpsN > 1) {
      __syncthreads();
      Combine(WarpResults(), item_.slot < 0);
    }
    if (item_.slot >= 0 && IsLastChunk()) Combine(ChunkResults(), true);
  }

 private:
  __device__ float* WarpOut() const { return reinterpret_cast<float*>(shared_); }
  __device__ float2* WarpState() const {
    return reinterpret_cast<float2*>(shared_ + Shape::kWarpsN * Shape::kTileRows * Shape::kHeadDim *
                                                   sizeof(float));
  }
  __device__ PartialResults WarpResults() const {
    return {WarpOut(), WarpState(), Shape::kTileRows, Shape::kWarpsN};
  }

  __device__ int64_t PartialRow(int32_t slot, int32_t row) const {
    return (static_cast<int64_t>(slot) * p_.num_kv_heads + item_.kv_head) * p_.work.partial_rows +
           row;
  }
  __device__ PartialResults ChunkResults() const {
    const int64_t first = PartialRow(item_.first_slot, 0);
    return {p_.work.partial_out + first * Shape::kHeadDim, p_.work.partial_state + first,
            static_cast<int64_t>(p_.num_kv_heads) * p_.work.partial_rows, item_.num_chunks};
  }

  // A warp's result goes to shared memory if there are others to combine it with.
  __device__ void Store(int warp_n, int32_t row, int32_t column, float2 values,
                        float2 state) const {
    if constexpr (Shape::kWarpsN > 1) {
      const int32_t at = (warp_n * Shape::kTileRows + row) * Shape::kHeadDim + column;
      *reinterpret_cast<float2*>(WarpOut() + at) = values;
    } else {
      StoreCombined(row, column, values, state, item_.slot < 0);
    }
  }
  __device__ void StoreState(int warp_n, int32_t row, float2 state) const {
    if constexpr (Shape::kWarpsN > 1) {
      WarpState()[warp_n * Shape::kTileRows + row] = state;
    } else {
      StoreCombinedState(row, state, item_.slot < 0);
    }
  }

  __device__ void StoreCombined(int32_t row, int32_t column, float2 values, float2 state,
                                bool is_final) const {
    if (is_final) {
      const float scale = Reciprocal(state.y);
      auto* out = static_cast<__nv_bfloat16*>(p_.out) + item_.TokenOf(row) * p_.out_row_stride +
                  item_.HeadOf(row) * Shape::kHeadDim + column;
      *reinterpret_cast<uint32_t*>(out) = PackBf16(values.x * scale, values.y * scale);
    } else {
      float* out = p_.work.partial_out + PartialRow(item_.slot, row) * Shape::kHeadDim + column;
      *reinterpret_cast<float2*>(out) = values;
    }
  }
  __device__ void StoreCombinedState(int32_t row, float2 state, bool is_final) const {
    if (!is_final) {
      p_.work.partial_state[PartialRow(item_.slot, row)] = state;
    } else if (p_.lse != nullptr) {
      p_.lse[item_.TokenOf(row) * p_.num_q_heads + item_.HeadOf(row)] = LogSum(state);
    }
  }

  __device__ void Combine(const PartialResults& parts, bool is_final) const {
    constexpr int kColumns = Shape::kHeadDim / 4;
    for (int i = threadIdx.x; i < item_.num_rows * kColumns; i += Shape::kThreads) {
      const int32_t row = i / kColumns;
      const int32_t column = i % kColumns * 4;
      float2 total = {-INFINITY, 0};
      for (int32_t s = 0; s < parts.num_sources; ++s) {
        total.x = fmaxf(total.x, parts.state[s * parts.source_rows + row].x);
      }
      float4 sum = {};
#pragma unroll 4
      for (int32_t s = 0; s < parts.num_sources; ++s) {
        const int64_t from = s * parts.source_rows + row;
        const float2 state = parts.state[from];
        const float4 values =
            *reinterpret_cast<const float4*>(parts.out + from * Shape::kHeadDim + column);
        const float scale = Rescale(state.x, total.x);
        total.y += state.y * scale;
        sum.x += values.x * scale;
        sum.y += values.y * scale;
        sum.z += values.z * scale;
        sum.w += values.w * scale;
      }
      StoreCombined(row, column, {sum.x, sum.y}, total, is_final);
      StoreCombined(row, column + 2, {sum.z, sum.w}, total, is_final);
      if (column == 0) StoreCombinedState(row, total, is_final);
    }
  }

  // True in the CTA that finishes the last of the tile's chunks; it then sees all their results.
  __device__ bool IsLastChunk() const {
    __shared__ bool is_last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      int32_t* arrivals = p_.work.arrivals +
                          static_cast<int64_t>(item_.first_slot) * p_.num_kv_heads + item_.kv_head;
      is_last = atomicAdd(arrivals, 1) == item_.num_chunks - 1;
      if (is_last) *arrivals = 0;
    }
    __syncthreads();
    __threadfence();
    return is_last;
  }

  const TiledParams& p_;
  const TileItem& item_;
  uint8_t* const shared_;
};

}  // namespace quire::cuda
