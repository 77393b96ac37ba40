// Gemms of e4m3 by e4m3 on sm_90a: their operands and scales, and what is done with them. A line is
// 128 columns, which have a scale in each row of x and, unless the weight's rows have one each, of
// the weight. Tensor cores add up a line (their sums have some 14 bits); lines are scaled and added
// up in float32. Device code only.
#pragma once

#include "kernels/cuda/runtime/async.cuh"
#include "kernels/packed_layout.h"

namespace quire::cuda {

// What is in device memory (kernels/packed_layout.h).
struct Float8Matrices {
  const uint8_t* tiles;  // of the weight
  int num_lines;
  int num_weight_rows;             // a multiple of 64
  const float* weight_scales;      // [num_lines, num_weight_rows], or null
  const float* weight_row_scales;  // [num_weight_rows], or null
  const float* x_scales;           // [num_lines, x_stride]
  int x_stride;                    // a multiple of 128
};

// The same as CopyBytes to that place in all CTAs of the cluster that `ctas` has a bit of, whose
// mbarriers there get the bytes.
__device__ __forceinline__ void CopyBytesToAll(uint32_t shared_dst, const void* from,
                                               uint32_t bytes, uint32_t mbarrier, uint16_t ctas) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1], %2, [%3], %4;\n" ::"r"(shared_dst),
      "l"(from), "r"(bytes), "r"(mbarrier), "h"(ctas)
      : "memory");
}

// Copies a line of kRows rows of the weight, which arrive at the mbarrier of each CTA of `ctas`, or
// of this one where it is 0. For rows beyond the last ones others: nobody reads their results.
template <int kRows>
__device__ __forceinline__ void LoadTileRows(const Float8Matrices& p, int line, int first_row,
                                             uint32_t to, uint32_t mbarrier, uint16_t ctas = 0) {
  constexpr int kAtOnce = kRows % 64 == 0 ? 64 : kRows % 32 == 0 ? 32 : 16;
  static_assert(kRows % kAtOnce == 0);
#pragma unroll
  for (int i = 0; i < kRows; i += kAtOnce) {
    const int row = min(first_row + i, p.num_weight_rows - kAtOnce);
    const uint8_t* const from = p.tiles + TileLineAt(row, line, p.num_lines);
    const uint32_t to_rows = to + i * kStepColumns;
    if (ctas == 0) {
      CopyBytes(to_rows, from, kAtOnce * kStepColumns, mbarrier);
    } else {
      CopyBytesToAll(to_rows, from, kAtOnce * kStepColumns, mbarrier, ctas);
    }
  }
}

// The scales of a line of a tile in shared memory: of its rows of x, then of the weight in halves,
// which may be of rows that do not follow each other.
template <int kXRows, int kHalf>
struct Float8LineScales {
  static constexpr int kBytes = (kXRows + 2 * kHalf) * 4;

  // How many bytes of a half there are.
  static __device__ int HalfBytes(const Float8Matrices& p, int weight_row) {
    if (p.weight_scales == nullptr) return 0;
    return max(min(p.num_weight_rows - weight_row, kHalf), 0) * 4;
  }
  // Copies arrive at the mbarrier.
  static __device__ void LoadHalf(const Float8Matrices& p, int line, int half, int weight_row,
                                  uint32_t to, uint32_t mbarrier) {
    const int bytes = HalfBytes(p, weight_row);
    if (bytes == 0) return;
    const int64_t at = static_cast<int64_t>(line) * p.num_weight_rows + weight_row;
    CopyBytes(to + (kXRows + half * kHalf) * 4, p.weight_scales + at, bytes, mbarrier);
  }
  // Beyond the last rows of x the last ones again: nobody reads their results.
  static __device__ void LoadX(const Float8Matrices& p, int line, int first_row, uint32_t to,
                               uint32_t mbarrier) {
    const int row = min(first_row, p.x_stride - kXRows);
    CopyBytes(to, p.x_scales + static_cast<int64_t>(line) * p.x_stride + row, kXRows * 4, mbarrier);
  }
};

// The scales of a line of the weight's rows, which are at `scales` in shared memory: whether each
// 32 neighbours share one, as blocks of 128 x 128 do, which are then in `shared`; else that has
// ones. The whole warp.
template <int kShared>
__device__ __forceinline__ bool ShareScales(uint32_t scales, float (&shared)[kShared]) {
  bool all = true;
#pragma unroll
  for (int i = 0; i < kShared; ++i) {
    const uint32_t scale = LoadShared4(scales + (i * 32 + threadIdx.x % 32) * 4);
    int same = 0;
    __match_all_sync(~0u, scale, &same);
    all = all && same != 0;
    shared[i] = __uint_as_float(scale);
  }
#pragma unroll
  for (float& scale : shared) scale = all ? scale : 1.0f;
  return all;
}

// Multiplies the sums of a line by the scales of the weight's rows, at `scales` in shared memory.
template <int kFragments>
__device__ __forceinline__ void ScaleLine(uint32_t scales, float (&line)[1][kFragments][4]) {
  const uint32_t at = scales + threadIdx.x % 4 * 8;
#pragma unroll
  for (int i = 0; i < kFragments; ++i) {
    const float2 pair = LoadSharedPair(at + i * 32);
    line[0][i][0] *= pair.x;
    line[0][i][1] *= pair.y;
    line[0][i][2] *= pair.x;
    line[0][i][3] *= pair.y;
  }
}
// Adds the sums of a line to those of all, of a lane's rows of x r and r + 8 with their scales
// `upper` and `lower`, and with `shared` of each 32 rows of the weight.
template <int kFragments, int kShared>
__device__ __forceinline__ void AddLine(const float (&line)[1][kFragments][4], float upper,
                                        float lower, const float (&shared)[kShared],
                                        float (&sums)[1][kFragments][4]) {
#pragma unroll
  for (int i = 0; i < kFragments; ++i) {
    const float up = upper * shared[i * kShared / kFragments];
    const float low = lower * shared[i * kShared / kFragments];
    sums[0][i][0] += line[0][i][0] * up;
    sums[0][i][1] += line[0][i][1] * up;
    sums[0][i][2] += line[0][i][2] * low;
    sums[0][i][3] += line[0][i][3] * low;
  }
}

// The end, where the weight's rows have a scale each. Their rows of the two halves begin at `first`
// and `second`; those beyond the last one have no results.
template <int kFragments>
__device__ __forceinline__ void ScaleWeightRows(const Float8Matrices& p, int first, int second,
                                                float (&sums)[1][kFragments][4]) {
#pragma unroll
  for (int i = 0; i < kFragments; ++i) {
    const int half = i < kFragments / 2 ? first : second;
    const int row = half + i % (kFragments / 2) * 8 + static_cast<int>(threadIdx.x) % 4 * 2;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const float scale = p.weight_row_scales[min(row + j, p.num_weight_rows - 1)];
      sums[0][i][j] *= scale;
      sums[0][i][j + 2] *= scale;
    }
  }
}

}  // namespace quire::cuda
