// Combines an item's results: the computing warps leave theirs in shared memory and combine them.
// When a unit is cut, the CTA with its last keys adds the results that the other CTAs have left in
// global memory, in the order of keys. Device code only.
#pragma once

#include "kernels/cuda/attention/trtllm/decode_items.cuh"
#include "kernels/cuda/attention/trtllm/decode_operands.cuh"
#include "kernels/cuda/attention/trtllm/decode_rows.cuh"
#include "kernels/cuda/runtime/arrivals.cuh"
#include "kernels/cuda/runtime/launch.cuh"

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
      CombineRows(item, rows, tile, parity);
      Arrive(shared_.pass_free());
    }
    if (item.EndsIn(share())) return;
    __syncwarp();
    if (lane_ == 0) Arrive(shared_.part_left());
  }

  // Called by one thread. Tells the CTA that goes on with the first item's unit that this CTA has
  // left its part. Then waits for the parts of the last item's unit, which the CTAs before this one
  // leave. They started no later, and they compute these parts first, without waiting for anyone.
  __device__ void HandOver() const {
    const DecodeShareItems mine = ReadPlan(&p_.shares[share()].items);
    WaitForPredecessor();
    if (mine.last < mine.first) return;
    if (!mine.item.EndsIn(share())) {
      Wait(shared_.part_left(), 0);
      AnnounceArrival(p_.arrivals + mine.item.first_share);
    }
    const DecodeItem last = ReadPlan(p_.items + mine.last);
    if (!TakesParts(last)) return;
    WaitForArrivals(p_.arrivals + last.first_share, last.num_shares - 1);
    p_.arrivals[last.first_share] = 0;
    Arrive(shared_.others_left());
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

  static __device__ int32_t share() { return static_cast<int32_t>(blockIdx.x); }
  __device__ bool TakesParts(const DecodeItem& item) const {
    return item.num_shares > 1 && item.EndsIn(share());
  }

  // The results that earlier shares have left for four columns of a row, kCount of them at a time.
  struct Parts {
    // A warp of 16 rows has registers for no more: it holds the other eight rows' results.
    static constexpr int kCount = Shape::kRowTiles == 1 ? 8 : 2;
    float2 states[kCount];
    float4 values[kCount];
  };
  // Loads the parts from `first` on. In place of a part that does not exist it loads the last one.
  __device__ void LoadParts(const DecodeItem& item, int32_t first, int32_t row, int column_quad,
                            Parts& parts) const {
#pragma unroll
    for (int i = 0; i < Parts::kCount; ++i) {
      const int32_t part = min(first + i, item.num_shares - 2);
      const int64_t from = PartialRow(item.first_share + part, row);
      parts.states[i] = __ldcg(p_.partial_state + from);
      parts.values[i] =
          __ldcg(reinterpret_cast<const float4*>(p_.partial_out) + from * kQuads + column_quad);
    }
  }
  // Adds all parts, then `own`. `parts` holds the first of them.
  __device__ CombinedQuad AddParts(const DecodeItem& item, int32_t row, int column_quad,
                                   Parts& parts, const CombinedQuad& own) const {
    CombinedQuad all;
    for (int32_t first = 0;;) {
#pragma unroll
      for (int i = 0; i < Parts::kCount; ++i) {
        if (first + i >= item.num_shares - 1) continue;
        all.RaiseMaximum(parts.states[i].x);
        all.Add(parts.states[i], parts.values[i]);
      }
      first += Parts::kCount;
      if (first >= item.num_shares - 1) break;
      LoadParts(item, first, row, column_quad, parts);
    }
    all.RaiseMaximum(own.state.x);
    all.Add(own.state, own.sum);
    return all;
  }

  // Rows of the tile-th 8 of each warp.
  __device__ void CombineRows(const DecodeItem& item, const DecodeRows& rows, int tile,
                              uint32_t parity) const {
    const int splits = p_.layout.row_splits;
    const int pass_rows = p_.layout.pass_rows;
    const bool takes_parts = TakesParts(item);
    for (int i = threadIdx.x; i < splits * pass_rows * kQuads; i += Shape::kComputeThreads) {
      const int column_quad = i % kQuads;
      const int in_pass = i / kQuads % pass_rows;
      const int split = i / kQuads / pass_rows;
      const int row = split * Shape::kWarpRows + tile * 8 + in_pass;
      if (row >= rows.num_rows) continue;
      Parts parts;
      if (takes_parts) {  // which come while other warps still compute
        Wait(shared_.others_left(), 0);
        LoadParts(item, 0, row, column_quad, parts);
      }
      Wait(shared_.pass_full(), parity);
      const CombinedQuad own = CombineWarps(split, in_pass, column_quad);
      if (takes_parts) {
        WriteRow(rows, row, column_quad, AddParts(item, row, column_quad, parts, own));
      } else if (item.num_shares == 1) {
        WriteRow(rows, row, column_quad, own);
      } else {
        const int64_t to = PartialRow(share(), row);
        __stcg(reinterpret_cast<float4*>(p_.partial_out) + to * kQuads + column_quad, own.sum);
        if (column_quad == 0) __stcg(p_.partial_state + to, own.state);
      }
    }
  }
  // Combines the results that the warps of a split have left for four columns of a row.
  __device__ CombinedQuad CombineWarps(int split, int in_pass, int column_quad) const {
    const int pass_rows = p_.layout.pass_rows;
    CombinedQuad quad;
    float2 states[Shape::kWarps];
    float4 values[Shape::kWarps];
#pragma unroll
    for (int part = 0; part < Shape::kWarps; ++part) {
      states[part] = shared_.pass_state()[part * 8 + in_pass];
      if (part % p_.layout.row_splits != split) states[part].x = -INFINITY;
      quad.state.x = fmaxf(quad.state.x, states[part].x);
      values[part] = *reinterpret_cast<const float4*>(
          shared_.pass_out() + (part * pass_rows + in_pass) * Shape::kPassStride + column_quad * 4);
    }
#pragma unroll
    for (int part = 0; part < Shape::kWarps; ++part) quad.Add(states[part], values[part]);
    return quad;
  }

  __device__ int64_t PartialRow(int32_t share, int32_t row) const {
    return int64_t{share} * p_.layout.partial_rows + row;
  }

  // The whole result of four columns of a row.
  __device__ void WriteRow(const DecodeRows& rows, int32_t row, int column_quad,
                           const CombinedQuad& quad) const {
    const int64_t token = rows.TokenOf(row);
    const int32_t head = rows.HeadOf(row);
    const FinalRow row_end =
        FinishRow(quad.state, p_.sinks != nullptr ? p_.sinks[head] * kLog2E : -INFINITY);
    if (column_quad == 0 && p_.lse != nullptr) p_.lse[token * p_.num_q_heads + head] = row_end.lse;
    const float scale = row_end.scale * (p_.v_scales != nullptr ? p_.v_scales[rows.kv_head] : 1.0f);
    const float4 values = {quad.sum.x * scale, quad.sum.y * scale, quad.sum.z * scale,
                           quad.sum.w * scale};
    const int64_t at = token * p_.out_row_stride + head * Shape::kHeadDim + column_quad * 4;
    uint2 packed;
    if (p_.query_dtype == DType::kF16) {
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
  uint32_t num_passes_ = 0;  // times that the warps left their results
};

}  // namespace quire::cuda::trtllm
