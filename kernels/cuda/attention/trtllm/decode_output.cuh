// What becomes of an item's result: the computing warps leave theirs in shared memory and go on;
// one more warp combines them, and those of a unit that is cut where its CTA comes last, always in
// the order of keys: the bits do not depend on who that is. Device code only.
#pragma once

#include "kernels/cuda/attention/trtllm/decode_items.cuh"
#include "kernels/cuda/attention/trtllm/decode_operands.cuh"
#include "kernels/cuda/attention/trtllm/decode_rows.cuh"
#include "kernels/cuda/runtime/arrivals.cuh"
#include "kernels/cuda/runtime/float8.cuh"

namespace quire::cuda::trtllm {

// Where results go.
template <typename Shape>
class DecodeResults {
 public:
  __device__ DecodeResults(const DecodeParams& p, const DecodeShared<Shape>& shared)
      : p_(p), shared_(shared), lane_(static_cast<int>(threadIdx.x) % 32) {}

  // By all computing warps, at an item's end. `part` is where this one stands among them: in the
  // order of the item's first tiles, whichever warp had them.
  template <typename Out>
  __device__ void Combine(const DecodeItem& item, int part, const DecodeSoftmax<Shape>& softmax,
                          const Out& out) {
    const DecodeRows rows(p_, item, p_.layout.row_splits * Shape::kWarpRows);
#pragma unroll
    for (int tile = 0; tile < Shape::kRowTiles; ++tile) {
      const uint32_t parity = num_passes_++ & 1;
      Wait(shared_.pass_free(), parity ^ 1);
      LeaveInShared(tile, part, softmax, out[tile]);
      Arrive(shared_.pass_full());
      Wait(shared_.pass_full(), parity);
      CombineWarps(item, rows, tile);
      Arrive(shared_.pass_free());
    }
    if (item.num_shares == 1) return;
    Wait(shared_.cut_free(), (num_cuts_ & 1) ^ 1);
    __syncwarp();
    if (lane_ == 0) Arrive(shared_.cut_done());
    ++num_cuts_;
  }

  // The warp that merges.
  __device__ void Merge() {
    DecodeItem to_merge = {};
    ForEachItem(p_, [&](const DecodeItem& item) {
      if (item.num_shares == 1) return;
      Wait(shared_.cut_done(), num_cuts_ & 1);
      ++num_cuts_;
      if (to_merge.num_shares > 0) CombineShares<4>(to_merge, lane_, 32);
      to_merge.num_shares = 0;
      if (IsLast(item)) to_merge = item;
      if (lane_ == 0) Arrive(shared_.cut_free());
    });
    if (lane_ != 0) return;
    shared_.rest() = to_merge;
    Arrive(shared_.rest_known());
  }

  // By all computing warps, after all items: with few sequences the last merge is what all wait
  // for.
  __device__ void Finish() const {
    Wait(shared_.rest_known(), 0);
    const DecodeItem item = shared_.rest();
    if (item.num_shares > 0) {
      CombineShares<8>(item, static_cast<int>(threadIdx.x), Shape::kComputeThreads);
    }
  }

 private:
  using Operands = DecodeOperands<Shape>;
  static constexpr int kQuads = Shape::kHeadDim / 4;

  template <typename RowTile>
  __device__ void LeaveInShared(int tile, int part, const DecodeSoftmax<Shape>& softmax,
                                const RowTile& out) const {
    const int pass_rows = p_.layout.pass_rows;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = lane_ % 4 * 2 + i;
      const float2 state = softmax.State(tile, i);
      if (lane_ < 4) shared_.pass_state()[part * 8 + row] = state;
      if (row >= pass_rows || state.x == -INFINITY) continue;
      float* to = shared_.pass_out() + (part * pass_rows + row) * Shape::kPassStride +
                  Operands::FirstColumn();
#pragma unroll
      for (int d = 0; d < Shape::kHeadDim / 16; ++d) {
        if constexpr (Shape::kIs8Bit) {
          *reinterpret_cast<float2*>(to + d * 16) = {out[d][i], out[d][i + 2]};
        } else {
          to[d * 16] = out[d][i];
          to[d * 16 + Operands::kSecondColumn] = out[d][i + 2];
        }
      }
    }
  }

  // Rows of the tile-th 8 of each warp.
  __device__ void CombineWarps(const DecodeItem& item, const DecodeRows& rows, int tile) const {
    const int splits = p_.layout.row_splits;
    const int pass_rows = p_.layout.pass_rows;
    for (int i = threadIdx.x; i < splits * pass_rows * kQuads; i += Shape::kComputeThreads) {
      const int column_quad = i % kQuads;
      const int in_pass = i / kQuads % pass_rows;
      const int split = i / kQuads / pass_rows;
      const int row = split * Shape::kWarpRows + tile * 8 + in_pass;
      if (row >= rows.num_rows) continue;
      CombinedQuad quad;
      float2 states[Shape::kWarps];
      float4 values[Shape::kWarps];
#pragma unroll
      for (int part = 0; part < Shape::kWarps; ++part) {
        states[part] = shared_.pass_state()[part * 8 + in_pass];
        if (part % splits != split) states[part].x = -INFINITY;
        quad.state.x = fmaxf(quad.state.x, states[part].x);
        values[part] = *reinterpret_cast<const float4*>(
            shared_.pass_out() + (part * pass_rows + in_pass) * Shape::kPassStride +
            column_quad * 4);
      }
#pragma unroll
      for (int part = 0; part < Shape::kWarps; ++part) quad.Add(states[part], values[part]);
      if (item.num_shares == 1) {
        WriteRow(rows, row, column_quad, quad);
      } else {
        const int64_t to = PartialRow(item, static_cast<int32_t>(blockIdx.x), row);
        __stcg(reinterpret_cast<float4*>(p_.partial_out) + to * kQuads + column_quad, quad.sum);
        if (column_quad == 0) __stcg(p_.partial_state + to, quad.state);
      }
    }
  }

  __device__ int64_t PartialRow(const DecodeItem& item, int32_t share, int32_t row) const {
    const int32_t partial = 2 * share + (share == item.first_share ? 1 : 0);
    return int64_t{partial} * p_.layout.partial_rows + row;
  }

  // By one warp: whether this item is the last of its unit's; what all have left is then to be
  // seen.
  __device__ bool IsLast(const DecodeItem& item) const {
    int32_t is_last = 0;
    if (lane_ == 0) {
      int32_t* arrivals = p_.arrivals + item.first_share;
      is_last = AddAndSee(arrivals, 1) == item.num_shares - 1;
      if (is_last != 0) *arrivals = 0;
    }
    return __shfl_sync(0xffffffff, is_last, 0) != 0;
  }

  // By `num_threads` threads, each of which reads kAtOnce parts at a time.
  template <int kAtOnce>
  __device__ void CombineShares(const DecodeItem& item, int thread, int num_threads) const {
    const DecodeRows rows(p_, item, p_.layout.row_splits * Shape::kWarpRows);
    for (int i = thread; i < rows.num_rows * kQuads; i += num_threads) {
      const int row = i / kQuads;
      CombinedQuad quad;
      for (int32_t first = 0; first < item.num_shares; first += kAtOnce) {
        float2 states[kAtOnce];
        float4 values[kAtOnce];
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          const int32_t part = min(first + j, item.num_shares - 1);
          const int64_t from = PartialRow(item, item.first_share + part, row);
          states[j] = __ldcg(p_.partial_state + from);
          values[j] =
              __ldcg(reinterpret_cast<const float4*>(p_.partial_out) + from * kQuads + i % kQuads);
        }
#pragma unroll
        for (int j = 0; j < kAtOnce; ++j) {
          if (first + j >= item.num_shares) continue;
          quad.RaiseMaximum(states[j].x);
          quad.Add(states[j], values[j]);
        }
      }
      WriteRow(rows, row, i % kQuads, quad);
    }
  }

  // The whole result of four columns of a row.
  __device__ void WriteRow(const DecodeRows& rows, int32_t row, int column_quad,
                           CombinedQuad& quad) const {
    const int64_t token = rows.TokenOf(row);
    const int32_t head = rows.HeadOf(row);
    const FinalRow row_end =
        FinishRow(quad.state, p_.sinks != nullptr ? p_.sinks[head] * kLog2E : -INFINITY);
    if (column_quad == 0 && p_.lse != nullptr) p_.lse[token * p_.num_q_heads + head] = row_end.lse;
    float scale = row_end.scale * (p_.v_scales != nullptr ? p_.v_scales[rows.kv_head] : 1.0f);
    if (p_.out_scale != nullptr) scale /= *p_.out_scale;
    const float4 values = {quad.sum.x * scale, quad.sum.y * scale, quad.sum.z * scale,
                           quad.sum.w * scale};
    const int64_t at = token * p_.out_row_stride + head * Shape::kHeadDim + column_quad * 4;
    if (p_.out_dtype == DType::kF8E4M3) {
      *reinterpret_cast<uint32_t*>(static_cast<uint8_t*>(p_.out) + at) =
          NarrowPair<__NV_E4M3>(values.x, values.y) | NarrowPair<__NV_E4M3>(values.z, values.w)
                                                          << 16;
      return;
    }
    uint2 packed;
    if (p_.out_dtype == DType::kF16) {
      packed = {PackPair<__half>(values.x, values.y), PackPair<__half>(values.z, values.w)};
    } else {
      packed = {PackPair<__nv_bfloat16>(values.x, values.y),
                PackPair<__nv_bfloat16>(values.z, values.w)};
    }
    *reinterpret_cast<uint2*>(static_cast<uint16_t*>(p_.out) + at) = packed;
  }

  const DecodeParams& p_;
  const DecodeShared<Shape>& shared_;
  const int lane_;
  uint32_t num_cuts_ = 0;    // items so far whose unit is cut
  uint32_t num_passes_ = 0;  // times that the warps left their results
};

}  // namespace quire::cuda::trtllm
