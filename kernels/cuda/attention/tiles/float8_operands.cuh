// What a warp multiplies where the cache has 8-bit elements: all as float16, which holds them
// exactly. Its columns of 16 queries stay in registers; keys and values are widened on their way
// from shared memory. The order in which columns are summed, and the columns of the output that a
// lane has, are permuted so that the four bytes of a lane need no shuffle. Device code only.
#pragma once

#include "kernels/cuda/attention/tiles/half_queries.cuh"
#include "kernels/cuda/attention/tiles/tile_rows.cuh"
#include "kernels/cuda/runtime/float8.cuh"
#include "kernels/cuda/runtime/mma.cuh"

namespace quire::cuda {

template <typename Shape>
class Float8Operands {
 public:
  static constexpr int kSteps = Shape::kWarpColumns / 16;

  // Sends for 16 of the tile's queries, from first_row on, and their columns from first_column on.
  // In each 16 columns a lane has four that follow each other, of rows lane / 4 and lane / 4 + 8.
  // It has zeros where the tile has no such row or the head no such columns.
  __device__ void LoadQueries(const TiledParams& p, const TileItem& item, int first_row,
                              int first_column) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int32_t row = first_row + Lane() / 4 + half * 8;
      const bool has_row = row < item.num_rows;
      const int32_t source = has_row ? row : 0;
      const auto* from = static_cast<const uint16_t*>(p.q) + item.TokenOf(source) * p.q_row_stride +
                         item.HeadOf(source) * p.head_dim + first_column + Lane() % 4 * 4;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        uint2 four = {};
        if (has_row && first_column + step * 16 < p.head_dim) {
          four = *reinterpret_cast<const uint2*>(from + step * 16);
        }
        queries_[step][half] = four.x;
        queries_[step][2 + half] = four.y;
      }
    }
  }

  // Makes the queries float16, and returns the factor that scores must be multiplied by.
  __device__ float ConvertQueries(const TiledParams& p) {
    if (p.query_dtype == DType::kF16) return 1;
    uint32_t largest = 0;
#pragma unroll
    for (const auto& step : queries_) {
#pragma unroll
      for (const uint32_t pair : step) largest = LargerMagnitudes(largest, pair);
    }
    const HalfScale scale(LargestOfWarp(largest));
#pragma unroll
    for (auto& step : queries_) {
#pragma unroll
      for (uint32_t& pair : step) pair = scale.Convert(pair);
    }
    return scale.inverse;
  }

  // scores += queries * keys^T, of the keys in rows [first_row, first_row + kWarpKeys) of a stage
  // and the columns from 16 * first_step on.
  template <__nv_fp8_interpretation_t kFormat, typename Scores>
  __device__ void MultiplyByKeys(uint32_t keys, int first_row, int first_step,
                                 Scores& scores) const {
    const int matrix = Lane() / 8;
    const int line = first_row + matrix % 2 * 8 + Lane() % 8;
#pragma unroll
    for (int step = 0; step < kSteps; step += 2) {
#pragma unroll
      for (int n = 0; n < Shape::kWarpKeys / 8; n += 2) {
        uint32_t k[4];  // keys 0-7, keys 8-15, the same of the next 16 columns
        LoadMatrices(keys + Shape::Swizzle(line + n * 8, first_step + step + matrix / 2), k);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          uint32_t low, high;
          WidenQuad<kFormat>(k[i], low, high);
          MultiplyAdd<__half>(queries_[step + i / 2], low, high, scores[0][n + i % 2]);
        }
      }
    }
  }

  // out += probs * values. In each 16 columns of V, fragment 2 * n has the even columns and
  // fragment 2 * n + 1 the odd ones.
  template <__nv_fp8_interpretation_t kFormat, typename Probs, typename Out>
  static __device__ void AddProbsTimesValues(uint32_t values, int first_row, int first_step,
                                             const Probs& probs, Out& out) {
    const int matrix = Lane() / 8;
    const int line = first_row + matrix % 2 * 8 + Lane() % 8;
#pragma unroll
    for (int k = 0; k < Shape::kWarpKeys / 16; ++k) {
      const auto& first = probs[0][2 * k];
      const auto& second = probs[0][2 * k + 1];
      const uint32_t w[4] = {
          PackPair<__half>(first[0], first[1]), PackPair<__half>(first[2], first[3]),
          PackPair<__half>(second[0], second[1]), PackPair<__half>(second[2], second[3])};
#pragma unroll
      for (int step = 0; step < kSteps; step += 2) {
        uint32_t v[4];  // keys 0-7, keys 8-15, the same of the next 16 columns
        LoadMatricesTransposed(
            values + Shape::Swizzle(line + k * 16, first_step + step + matrix / 2), v);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          // A register has two columns of two keys: pairs of keys are wanted.
          uint32_t even[2], odd[2];
          WidenQuad<kFormat>(__byte_perm(v[2 * i], 0, 0x3120), even[0], odd[0]);
          WidenQuad<kFormat>(__byte_perm(v[2 * i + 1], 0, 0x3120), even[1], odd[1]);
          MultiplyAdd<__half>(w, even[0], even[1], out[0][2 * (step + i)]);
          MultiplyAdd<__half>(w, odd[0], odd[1], out[0][2 * (step + i) + 1]);
        }
      }
    }
  }

 private:
  static __device__ int Lane() { return static_cast<int>(threadIdx.x % 32); }

  uint32_t queries_[kSteps][4];  // of 16 columns each, as the gemm takes them
};

}  // namespace quire::cuda
