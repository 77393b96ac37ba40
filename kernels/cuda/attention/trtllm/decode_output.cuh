// What becomes of an item's result: the warps' softmax states are combined in shared memory, those
// of a unit that is cut in global memory, by the CTA that comes last, always in the order of keys:
// the bits do not depend on who that is. Device code only.
#pragma once

#include "kernels/cuda/attention/trtllm/decode_operands.cuh"
#include "kernels/cuda/attention/trtllm/decode_rows.cuh"

namespace quire::cuda::trtllm {

// A running combination of parts.
struct CombinedQuad {
  float2 state = {-INFINITY, 0};
  float4 sum = {};

  // `state.x` is the maximum of all parts already.
  __device__ void Add(float2 part, const float4& values) {
    const float scale = Rescale(part.x, state.x);
    if (scale == 0) return;  // what saw no key may have left no values
    state.y += part.y * scale;
    sum.x += values.x * scale;
    sum.y += values.y * scale;
    sum.z += values.z * scale;
    sum.w += values.w * scale;
  }
};

template <typename Shape>
class DecodeOutput {
 public:
  __device__ DecodeOutput(const DecodeParams& p, const DecodeShared<Shape>& shared,
                          const DecodeItem& item)
      : p_(p),
        shared_(shared),
        item_(item),
        unit_rows_(p.layout.row_splits * Shape::kWarpRows),
        rows_(p, item, unit_rows_),
        warp_(static_cast<int>(threadIdx.x) / 32),
        split_(warp_ % p.layout.row_splits) {}

  // From registers, by all threads that compute.
  template <typename Out>
  __device__ void Write(const DecodeSoftmax<Shape>& softmax, const Out& out) {
#pragma unroll
    for (int n = 0; n < Shape::kRowTiles; ++n) {
      SyncSome(1, Shape::kComputeThreads);  // shared memory is free again
      WriteToShared(softmax, n, out[n]);
      SyncSome(1, Shape::kComputeThreads);
      CombineWarps(n);
    }
    if (item_.num_ctas > 1 && IsLast()) CombineCtas();
  }

 private:
  using Operands = DecodeOperands<Shape>;
  static constexpr int kQuads = Shape::kHeadDim / 4;

  __device__ int PassRows() const { return p_.layout.pass_rows; }

  template <typename RowTile>
  __device__ void WriteToShared(const DecodeSoftmax<Shape>& softmax, int n, const RowTile& out) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int row = lane % 4 * 2 + i;
      const float2 state = softmax.State(n, i);
      if (lane < 4) shared_.pass_state()[warp_ * 8 + row] = state;
      if (row >= PassRows() || state.x == -INFINITY) continue;
      float* to = shared_.pass_out() + (warp_ * PassRows() + row) * Shape::kPassStride +
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

  // Rows of the n-th 8 of each warp.
  __device__ void CombineWarps(int n) const {
    const int splits = p_.layout.row_splits;
    for (int i = threadIdx.x; i < splits * PassRows() * kQuads; i += Shape::kComputeThreads) {
      const int in_pass = i / kQuads % PassRows();
      const int split = i / kQuads / PassRows();
      const int row = split * Shape::kWarpRows + n * 8 + in_pass;
      if (row >= rows_.num_rows) continue;
      CombinedQuad quad;
      for (int warp = split; warp < Shape::kWarps; warp += splits) {
        quad.state.x = fmaxf(quad.state.x, shared_.pass_state()[warp * 8 + in_pass].x);
      }
      for (int warp = split; warp < Shape::kWarps; warp += splits) {
        quad.Add(shared_.pass_state()[warp * 8 + in_pass],
                 *reinterpret_cast<const float4*>(
                     shared_.pass_out() + (warp * PassRows() + in_pass) * Shape::kPassStride +
                     i % kQuads * 4));
      }
      if (item_.num_ctas == 1) {
        Finish(row, i % kQuads, quad);
      } else {
        const int64_t to = PartialRow(static_cast<int32_t>(blockIdx.x), row);
        __stcg(reinterpret_cast<float4*>(p_.partial_out) + to * kQuads + i % kQuads, quad.sum);
        if (i % kQuads == 0) __stcg(p_.partial_state + to, quad.state);
      }
    }
  }

  __device__ int64_t PartialRow(int32_t cta, int32_t row) const {
    return int64_t{2 * cta + (cta == item_.first_cta ? 1 : 0)} * unit_rows_ + row;
  }

  // True in the CTA that is the last of the unit's; it then sees what all have left.
  __device__ bool IsLast() const {
    __threadfence();
    SyncSome(1, Shape::kComputeThreads);
    if (threadIdx.x == 0) {
      int32_t* arrivals = p_.arrivals + item_.first_cta;
      const bool is_last = atomicAdd(arrivals, 1) == item_.num_ctas - 1;
      if (is_last) *arrivals = 0;
      shared_.flag() = is_last;
    }
    SyncSome(1, Shape::kComputeThreads);
    __threadfence();
    return shared_.flag() != 0;
  }

  __device__ void CombineCtas() const {
    for (int i = threadIdx.x; i < rows_.num_rows * kQuads; i += Shape::kComputeThreads) {
      const int row = i / kQuads;
      CombinedQuad quad;
#pragma unroll 8
      for (int32_t part = 0; part < item_.num_ctas; ++part) {
        const float2 state = __ldcg(p_.partial_state + PartialRow(item_.first_cta + part, row));
        quad.state.x = fmaxf(quad.state.x, state.x);
      }
#pragma unroll 8
      for (int32_t part = 0; part < item_.num_ctas; ++part) {
        const int64_t from = PartialRow(item_.first_cta + part, row);
        quad.Add(
            __ldcg(p_.partial_state + from),
            __ldcg(reinterpret_cast<const float4*>(p_.partial_out) + from * kQuads + i % kQuads));
      }
      Finish(row, i % kQuads, quad);
    }
  }

  // The whole result of four columns of a row.
  __device__ void Finish(int32_t row, int column_quad, CombinedQuad& quad) const {
    const int64_t token = rows_.TokenOf(row);
    const int32_t head = rows_.HeadOf(row);
    if (p_.sinks != nullptr) {
      const float sink = p_.sinks[head] * kLog2E;
      const float max = fmaxf(quad.state.x, sink);
      const float rescale = Rescale(quad.state.x, max);
      quad.state = {max, quad.state.y * rescale + Rescale(sink, max)};
      quad.sum = {quad.sum.x * rescale, quad.sum.y * rescale, quad.sum.z * rescale,
                  quad.sum.w * rescale};
    }
    if (column_quad == 0 && p_.lse != nullptr) {
      p_.lse[token * p_.num_q_heads + head] = LogSum(quad.state);
    }
    const float scale =
        Reciprocal(quad.state.y) * (p_.v_scales != nullptr ? p_.v_scales[rows_.kv_head] : 1.0f);
    const float4 values = {quad.sum.x * scale, quad.sum.y * scale, quad.sum.z * scale,
                           quad.sum.w * scale};
    uint2 packed;
    if (p_.is_half) {
      packed = {PackPair<__half>(values.x, values.y), PackPair<__half>(values.z, values.w)};
    } else {
      packed = {PackPair<__nv_bfloat16>(values.x, values.y),
                PackPair<__nv_bfloat16>(values.z, values.w)};
    }
    *reinterpret_cast<uint2*>(static_cast<uint16_t*>(p_.out) + token * p_.out_row_stride +
                              head * Shape::kHeadDim + column_quad * 4) = packed;
  }

  const DecodeParams& p_;
  const DecodeShared<Shape>& shared_;
  const DecodeItem& item_;
  const int32_t unit_rows_;
  const DecodeRows rows_;
  const int warp_;
  const int split_;
};

}  // namespace quire::cuda::trtllm
