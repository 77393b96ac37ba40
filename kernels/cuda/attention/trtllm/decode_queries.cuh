// Queries: a warp loads those of the next items into shared memory, as the second operand of K's
// gemm that the lanes of the computing warps hold. Beside an 8-bit cache they become float16: each
// row is multiplied by a power of two that brings its largest element near one, which its logits
// are divided by again. Device code only.
#pragma once

#include "kernels/cuda/attention/trtllm/decode_items.cuh"
#include "kernels/cuda/attention/trtllm/decode_operands.cuh"
#include "kernels/cuda/attention/trtllm/decode_rows.cuh"
#include "kernels/cuda/runtime/launch.cuh"

namespace quire::cuda::trtllm {

template <typename Shape>
class DecodeQueries {
 public:
  using Operands = DecodeOperands<Shape>;
  using PerRow = float[Shape::kRowTiles][2];

  // The warp that loads. A warp that has a query from it knows that the predecessor is complete.
  static __device__ void Run(const DecodeParams& p, const DecodeShared<Shape>& shared) {
    uint32_t n = 0;
    WaitForPredecessor();
    // Not before: what a successor that waits last (hopper_attention.h) reads must be there. It
    // finds no room earlier.
    ReleaseSuccessor();
    ForEachItem(p, [&](const DecodeItem& item) {
      const int num_tiles = p.layout.row_splits * Shape::kRowTiles;
      const DecodeRows rows(p, item, num_tiles * 8);
      Wait(shared.queries_free(n), shared.queries_parity(n) ^ 1);
      for (int tile = 0; tile < num_tiles; ++tile) {
        LoadTile(p, rows, tile * 8, shared.queries(n) + tile * Operands::kSteps * 32,
                 shared.scales(n) + tile * 8);
      }
      Arrive(shared.queries_full(n));
      ++n;
    });
  }

  // A computing warp: the n-th item's queries, and the scales of q.k of its lane's rows. `split` is
  // which of the unit's rows it has.
  static __device__ void Take(const DecodeShared<Shape>& shared, uint32_t n, int split,
                              typename Operands::Queries& q, PerRow& scales) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    Wait(shared.queries_full(n), shared.queries_parity(n));
#pragma unroll
    for (int i = 0; i < Shape::kRowTiles; ++i) {
      const int tile = split * Shape::kRowTiles + i;
      const float2 pair =
          *reinterpret_cast<const float2*>(shared.scales(n) + tile * 8 + lane % 4 * 2);
      scales[i][0] = pair.x;
      scales[i][1] = pair.y;
#pragma unroll
      for (int k = 0; k < Operands::kSteps; ++k) {
        const uint2 operand = shared.queries(n)[(tile * Operands::kSteps + k) * 32 + lane];
        q[i][k][0] = operand.x;
        q[i][k][1] = operand.y;
      }
    }
    Arrive(shared.queries_free(n));
  }

 private:
  // Eight rows, to [head_dim / 16, 32] pairs of registers and a scale each.
  static __device__ void LoadTile(const DecodeParams& p, const DecodeRows& rows, int32_t first_row,
                                  uint2* to, float* scales) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int32_t row = first_row + lane / 4;
    const bool has_row = row < rows.num_rows;
    int64_t from = 0;  // element of p.q
    if (has_row) from = rows.TokenOf(row) * p.q_row_stride + rows.HeadOf(row) * Shape::kHeadDim;
    float scale = p.variant.scale * (p.k_scales != nullptr ? p.k_scales[rows.kv_head] : 1.0f);
    uint2 raw[Operands::kSteps];
    const uint16_t* q = static_cast<const uint16_t*>(p.q) + from;
    if constexpr (Shape::kIs8Bit) {
      LoadFours(q, has_row, raw);
      scale *= MakeHalf(p.query_dtype == DType::kF16, raw);
    } else {
      LoadPairs(q, has_row, raw);
    }
#pragma unroll
    for (int k = 0; k < Operands::kSteps; ++k) to[k * 32 + lane] = raw[k];
    if (lane % 4 == 0) scales[lane / 4] = scale;
  }

  // What a lane has of a row: of every 16 elements two and two, as the gemm takes them, or, beside
  // an 8-bit cache, four that follow each other. Zeros where there is no row.
  static __device__ void LoadPairs(const uint16_t* row, bool has_row,
                                   uint2 (&raw)[Operands::kSteps]) {
    const auto* from = reinterpret_cast<const uint32_t*>(row) + threadIdx.x % 4;
#pragma unroll
    for (int k = 0; k < Operands::kSteps; ++k) {
      raw[k] = has_row ? uint2{from[k * 8], from[k * 8 + 4]} : uint2{};
    }
  }
  static __device__ void LoadFours(const uint16_t* row, bool has_row,
                                   uint2 (&raw)[Operands::kSteps]) {
    const auto* from = reinterpret_cast<const uint2*>(row) + threadIdx.x % 4;
#pragma unroll
    for (int k = 0; k < Operands::kSteps; ++k) raw[k] = has_row ? from[k * 4] : uint2{};
  }

  // Returns what the row was divided by.
  static __device__ float MakeHalf(bool is_half, uint2 (&raw)[Operands::kSteps]) {
    float largest = 0;
#pragma unroll
    for (const uint2& pairs : raw) {
      for (const uint32_t pair : {pairs.x, pairs.y}) {
        float low, high;
        Unpack(pair, is_half, low, high);
        largest = fmaxf(largest, fmaxf(fabsf(low), fabsf(high)));
      }
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, 2));
    // The power of two at or below the largest; 1 where all are zero, infinite or no numbers.
    const uint32_t exponent = __float_as_uint(largest) & 0x7f800000u;
    const bool scalable = exponent >= 0x01000000u && exponent <= 0x7e000000u;
    const float power = scalable ? __uint_as_float(exponent) : 1.0f;
    const float inverse = scalable ? __uint_as_float(0x7f000000u - exponent) : 1.0f;
#pragma unroll
    for (uint2& pairs : raw) {
      float low, high;
      Unpack(pairs.x, is_half, low, high);
      pairs.x = PackPair<__half>(low * inverse, high * inverse);
      Unpack(pairs.y, is_half, low, high);
      pairs.y = PackPair<__half>(low * inverse, high * inverse);
    }
    return power;
  }

  static __device__ void Unpack(uint32_t pair, bool is_half, float& low, float& high) {
    if (is_half) {
      const float2 values = __half22float2(*reinterpret_cast<const __half2*>(&pair));
      low = values.x;
      high = values.y;
    } else {
      low = __uint_as_float(pair << 16);
      high = __uint_as_float(pair & 0xffff0000u);
    }
  }
};

}  // namespace quire::cuda::trtllm
