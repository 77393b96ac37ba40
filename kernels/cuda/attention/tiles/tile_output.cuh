// The end of a tile. The softmax states of the warps, then of the splits, are combined in a fixed
// order, so that a result's bits do not depend on which CTA came last. The CTA that finishes a
// tile's last split merges all of them, unless a separate kernel does that (merge_parts.h). Device
// code only.
#pragma once

#include "kernels/cuda/attention/tiles/softmax_state.cuh"
#include "kernels/cuda/attention/tiles/tile_rows.cuh"
#include "kernels/cuda/runtime/arrivals.cuh"
#include "kernels/cuda/runtime/mma.cuh"

namespace quire::cuda {

// Partial results of the same rows, one per source.
struct PartialResults {
  const float* out;  // [sources, rows, kHeadDim], sources source_rows rows apart
  const float2* state;
  int64_t source_rows;
  int32_t num_sources;
};

template <typename Shape>
class TileOutput {
 public:
  // `shared` is free for use.
  __device__ TileOutput(const TiledParams& p, const TileItem& item, uint8_t* shared)
      : p_(p),
        item_(item),
        shared_(shared),
        is_left_(item.first_partial < 0),
        is_whole_(item.partial < 0 || is_left_) {}

  // From the registers of a thread, as softmax_rows.cuh counts its rows: raw maxima, to be
  // multiplied by log2_scale.
  template <typename Out, typename PerRow>
  __device__ void Write(const Out& out, const PerRow& max, const PerRow& sum, float log2_scale) {
    const int warp_m = Shape::ComputeThread() / 32 % Shape::kWarpsM;
    const int warp_n = Shape::ComputeThread() / 32 / Shape::kWarpsM % Shape::kWarpsN;
#pragma unroll
    for (int m = 0; m < Shape::kRowTiles; ++m) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int lane = threadIdx.x % 32;
        const int row = (warp_m * Shape::kRowTiles + m) * 16 + half * 8 + lane / 4;
        const bool has_row = row < item_.num_rows;
        const float2 state = {max[m][half] * log2_scale, sum[m][half]};
        // A warp's result goes to shared memory if there are others to combine it with.
        const RowTarget target =
            Shape::kWarpsN > 1 ? WarpTarget(warp_n, row) : CombinedTarget(row, state, is_whole_);
        if (has_row && lane % 4 == 0 && FirstColumn() == 0) {
          if constexpr (Shape::kWarpsN > 1) {
            WarpState()[warp_n * Shape::kTileRows + row] = state;
          } else {
            StoreCombinedState(row, state, is_whole_);
          }
        }
        if (Shape::kExchangesColumns && target.out != nullptr) {
          StoreRow(target, out[m], half, has_row);
        } else if (has_row &&
                   (Shape::kWarpsN > 1 || item_.partial < 0 || item_.key_begin < item_.key_end)) {
          StorePairs(target, out[m], half);
        }
      }
    }
    if constexpr (Shape::kWarpsN > 1) {
      Shape::SyncCompute();
      Combine(WarpResults(), is_whole_);
    }
    if (!is_whole_ && IsLastSplit()) Combine(SplitResults(), true);
  }

 private:
  using Element = typename Shape::Element;

  // The first of the columns that this warp has.
  static __device__ int FirstColumn() {
    if constexpr (Shape::kWarpsD == 1) return 0;
    return Shape::ComputeThread() / 32 / (Shape::kWarpsM * Shape::kWarpsN) * Shape::kWarpColumns;
  }
  __device__ float* WarpOut() const { return reinterpret_cast<float*>(shared_); }
  __device__ float2* WarpState() const {
    return reinterpret_cast<float2*>(shared_ + Shape::kWarpsN * Shape::kTileRows * Shape::kHeadDim *
                                                   sizeof(float));
  }
  __device__ PartialResults WarpResults() const {
    return {WarpOut(), WarpState(), Shape::kTileRows, Shape::kWarpsN};
  }

  __device__ int64_t PartialRow(int32_t partial, int32_t row) const {
    return (static_cast<int64_t>(partial) * p_.num_kv_heads + item_.kv_head) *
               p_.work.partial_rows +
           row;
  }
  __device__ PartialResults SplitResults() const {
    const int64_t first = PartialRow(item_.first_partial, 0);
    return {p_.work.partial_out + first * Shape::kHeadDim, p_.work.partial_state + first,
            static_cast<int64_t>(p_.num_kv_heads) * p_.work.partial_rows, item_.num_splits};
  }

  // When all parts of a row are combined: only here a sink counts, and the scale of values.
  __device__ FinalRow Finish(int32_t row, float2 state) const {
    const float sink = p_.sinks == nullptr ? -INFINITY : p_.sinks[item_.HeadOf(row)] * kLog2E;
    FinalRow last = FinishRow(state, sink);
    if constexpr (Shape::kIsFloat8) {
      if (p_.v_scales != nullptr) last.scale *= p_.v_scales[item_.kv_head];
    }
    return last;
  }

  // Where a row's result goes: multiplied by `scale` to `out`, or as it is to `partial`.
  struct RowTarget {
    uint16_t* out;
    float* partial;
    float scale;
  };

  __device__ RowTarget WarpTarget(int warp_n, int32_t row) const {
    return {nullptr, WarpOut() + (warp_n * Shape::kTileRows + row) * Shape::kHeadDim, 1};
  }
  __device__ RowTarget CombinedTarget(int32_t row, float2 state, bool is_final) const {
    if (!is_final) {
      return {nullptr, p_.work.partial_out + PartialRow(item_.partial, row) * Shape::kHeadDim, 1};
    }
    const float scale = Finish(row, state).scale;
    if (is_left_) {
      auto* const parts = reinterpret_cast<uint16_t*>(p_.work.partial_out);
      return {parts + PartialRow(item_.partial, row) * Shape::kHeadDim, nullptr, scale};
    }
    const int64_t at = item_.TokenOf(row) * p_.out_row_stride + item_.HeadOf(row) * p_.head_dim;
    return {static_cast<uint16_t*>(p_.out) + at, nullptr, scale};
  }
  // A lane's columns of a row, two at a time.
  template <typename Fragments>
  __device__ void StorePairs(const RowTarget& target, const Fragments& out, int half) const {
    const int lane = threadIdx.x % 4;
#pragma unroll
    for (int n = 0; n < Shape::kWarpColumns / 8; ++n) {
      if constexpr (Shape::kPairsColumns) {
        const int i = 2 * half + n % 2;
        Store(target, FirstColumn() + n / 2 * 16 + lane * 4 + n % 2 * 2,
              {out[n / 2 * 2][i], out[n / 2 * 2 + 1][i]});
      } else {
        Store(target, FirstColumn() + n * 8 + lane * 2, {out[n][2 * half], out[n][2 * half + 1]});
      }
    }
  }
  // The whole result of a row, by its four lanes: they exchange what they have, so that
  // each stores 16 bytes at a time. All lanes of a warp call it.
  template <typename Fragments>
  __device__ void StoreRow(const RowTarget& target, const Fragments& out, int half,
                           bool has_row) const {
#pragma unroll
    for (int n = 0; n < Shape::kWarpColumns / 8; n += 4) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        words[i] =
            Narrow({out[n + i][2 * half] * target.scale, out[n + i][2 * half + 1] * target.scale});
      }
      TransposeOverLanes(words);
      const int32_t column = FirstColumn() + (n + static_cast<int>(threadIdx.x) % 4) * 8;
      if (has_row && column < p_.head_dim) {
        *reinterpret_cast<uint4*>(target.out + column) = {words[0], words[1], words[2], words[3]};
      }
    }
  }
  // Lane i of four gets the i-th word of each.
  static __device__ void TransposeOverLanes(uint32_t (&words)[4]) {
#pragma unroll
    for (int distance = 1; distance <= 2; distance *= 2) {
      const bool is_high = threadIdx.x & distance;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if (i & distance) continue;
        uint32_t& low = words[i];
        uint32_t& high = words[i + distance];
        const uint32_t other = __shfl_xor_sync(0xffffffff, is_high ? low : high, distance);
        (is_high ? low : high) = other;
      }
    }
  }
  __device__ uint32_t Narrow(float2 values) const {
    if (Shape::kIsFloat8 && p_.query_dtype == DType::kBF16) {
      return PackPair<__nv_bfloat16>(values.x, values.y);
    }
    return PackPair<Element>(values.x, values.y);
  }

  // Columns beyond the head are not stored to `out`: the next head begins there.
  __device__ void Store(const RowTarget& target, int32_t column, float2 values) const {
    if (target.out != nullptr) {
      if (column >= p_.head_dim) return;
      *reinterpret_cast<uint32_t*>(target.out + column) =
          Narrow({values.x * target.scale, values.y * target.scale});
    } else {
      *reinterpret_cast<float2*>(target.partial + column) = values;
    }
  }

  __device__ void StoreCombinedState(int32_t row, float2 state, bool is_final) const {
    if (!is_final || is_left_) {
      p_.work.partial_state[PartialRow(item_.partial, row)] =
          is_final ? float2{Finish(row, state).lse, 1} : state;
    } else if (p_.lse != nullptr) {
      p_.lse[item_.TokenOf(row) * p_.num_q_heads + item_.HeadOf(row)] = Finish(row, state).lse;
    }
  }

  __device__ void Combine(const PartialResults& parts, bool is_final) const {
    constexpr int kColumns = Shape::kHeadDim / 4;
    static_assert(Shape::kComputeThreads % kColumns == 0);
    const int32_t column = Shape::ComputeThread() % kColumns * 4;
    for (int32_t row = Shape::ComputeThread() / kColumns; row < item_.num_rows;
         row += kRowsAtOnce * kRowStride) {
      CombineRows(parts, is_final, row, column);
    }
  }

  // A thread takes this many of its rows at once, so that their loads are under way together.
  static constexpr int kRowsAtOnce = Shape::kTileRows > 16 ? 8 : 1;
  static constexpr int kRowStride = Shape::kComputeThreads / (Shape::kHeadDim / 4);

  // Combines four columns of row `first` and of the thread's rows after it.
  __device__ void CombineRows(const PartialResults& parts, bool is_final, int32_t first,
                              int32_t column) const {
    CombinedQuad quads[kRowsAtOnce];
#pragma unroll(kRowsAtOnce > 1 ? 2 : 8)
    for (int32_t s = 0; s < parts.num_sources; ++s) {
      float2 states[kRowsAtOnce];
      float4 values[kRowsAtOnce];
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
        // Beyond the last row this reads the last one again.
        const int32_t row = min(first + r * kRowStride, item_.num_rows - 1);
        const int64_t from = s * parts.source_rows + row;
        states[r] = parts.state[from];
        values[r] = *reinterpret_cast<const float4*>(parts.out + from * Shape::kHeadDim + column);
      }
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r) {
        quads[r].RaiseMaximum(states[r].x);
        quads[r].Add(states[r], values[r]);
      }
    }
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const int32_t row = first + r * kRowStride;
      if (row >= item_.num_rows) return;
      const CombinedQuad& quad = quads[r];
      const RowTarget target = CombinedTarget(row, quad.state, is_final);
      const float2 pairs[2] = {{quad.sum.x, quad.sum.y}, {quad.sum.z, quad.sum.w}};
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        Store(target, column + 2 * i, pairs[i]);
      }
      if (column == 0) StoreCombinedState(row, quad.state, is_final);
    }
  }

  // True in the CTA that finishes the last of the tile's splits; it then sees all their results.
  __device__ bool IsLastSplit() const {
    __shared__ bool is_last;
    Shape::SyncCompute();
    if (Shape::ComputeThread() == 0) {
      int32_t* arrivals = p_.work.arrivals +
                          static_cast<int64_t>(item_.first_partial) * p_.num_kv_heads +
                          item_.kv_head;
      is_last = AddAndSee(arrivals, 1) == item_.num_splits - 1;
      if (is_last) *arrivals = 0;
    }
    Shape::SyncCompute();
    return is_last;
  }

  const TiledParams& p_;
  const TileItem& item_;
  uint8_t* const shared_;
  // Asked once, as the item lies in shared memory.
  const bool is_left_;   // for a kernel of its own, which finds what `out` and `lse` would be
  const bool is_whole_;  // is not added to others by a CTA
};

}  // namespace quire::cuda
