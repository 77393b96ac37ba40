// A warp's queries, loaded once an item into registers as the second operand of K's gemm. Beside an
// 8-bit cache they become float16: each row is multiplied by a power of two that brings its largest
// element near one, which its logits are divided by again. Device code only.
#pragma once

#include "kernels/cuda/attention/trtllm/decode_operands.cuh"
#include "kernels/cuda/attention/trtllm/decode_rows.cuh"

namespace quire::cuda::trtllm {

template <typename Shape>
class DecodeQueries {
 public:
  using Operands = DecodeOperands<Shape>;
  using PerRow = float[Shape::kRowTiles][2];

  // `scales`: of q.k of the rows that this lane's softmax has.
  static __device__ void Load(const DecodeParams& p, const DecodeRows& rows, int32_t first_row,
                              typename Operands::Queries& q, PerRow& scales) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const float scale = p.variant.scale * (p.k_scales != nullptr ? p.k_scales[rows.kv_head] : 1.0f);
#pragma unroll
    for (int n = 0; n < Shape::kRowTiles; ++n) {
      const int32_t row = first_row + n * 8 + lane / 4;
      const bool has_row = row < rows.num_rows;
      const auto* from = static_cast<const uint16_t*>(p.q);
      if (has_row) {
        from += rows.TokenOf(row) * p.q_row_stride + rows.HeadOf(row) * Shape::kHeadDim;
      }
      if constexpr (Shape::kIs8Bit) {
        const float row_scale = scale * LoadAsHalf(from + lane % 4 * 4, has_row, p.is_half, q[n]);
        scales[n][0] = __shfl_sync(0xffffffff, row_scale, lane % 4 * 8);
        scales[n][1] = __shfl_sync(0xffffffff, row_scale, lane % 4 * 8 + 4);
      } else {
        scales[n][0] = scales[n][1] = scale;
#pragma unroll
        for (int k = 0; k < Operands::kSteps; ++k) {
          const uint16_t* at = from + k * 16 + lane % 4 * 2;
          q[n][k][0] = has_row ? *reinterpret_cast<const uint32_t*>(at) : 0;
          q[n][k][1] = has_row ? *reinterpret_cast<const uint32_t*>(at + 8) : 0;
        }
      }
    }
  }

 private:
  // Four elements of every 16; returns what the row was divided by.
  static __device__ float LoadAsHalf(const uint16_t* from, bool has_row, bool is_half,
                                     uint32_t (&q)[Operands::kSteps][2]) {
    float largest = 0;
    float values[Operands::kSteps][4];
#pragma unroll
    for (int k = 0; k < Operands::kSteps; ++k) {
      const uint2 raw = has_row ? *reinterpret_cast<const uint2*>(from + k * 16) : uint2{0, 0};
      Unpack(raw.x, is_half, values[k][0], values[k][1]);
      Unpack(raw.y, is_half, values[k][2], values[k][3]);
#pragma unroll
      for (const float value : values[k]) largest = fmaxf(largest, fabsf(value));
    }
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, 2));
    // The power of two at or below the largest; 1 where all are zero, infinite or no numbers.
    const uint32_t exponent = __float_as_uint(largest) & 0x7f800000u;
    const bool scalable = exponent >= 0x01000000u && exponent <= 0x7e000000u;
    const float power = scalable ? __uint_as_float(exponent) : 1.0f;
    const float inverse = scalable ? __uint_as_float(0x7f000000u - exponent) : 1.0f;
#pragma unroll
    for (int k = 0; k < Operands::kSteps; ++k) {
      q[k][0] = PackPair<__half>(values[k][0] * inverse, values[k][1] * inverse);
      q[k][1] = PackPair<__half>(values[k][2] * inverse, values[k][3] * inverse);
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
