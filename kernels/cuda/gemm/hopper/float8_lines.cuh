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

// The scales of a line of a tile in shared memory: of its rows of x, then of the weight in halves,
// which may be of rows that do not follow each other.
template <int kXRows, int kHalf>
struct Float8LineScales {
  static constexpr int kBytes = (kXRows + 2 * kHalf) * 4;
  static constexpr int HalfAt(int half) { return (kXRows + half * kHalf) * 4; }

  // How many bytes of a half there are.
  static __device__ int HalfBytes(const Float8Matrices& p, int weight_row) {
    if (p.weight_scales == nullptr) return 0;
    return max(min(p.num_weight_rows - weight_row, kHalf), 0) * 4;
  }
};

// Where the lines of half a tile of the weight come from, one after the other. The lane that loads
// has little to do for each: it would else be what gemms wait for.
template <typename LineScales, int kHalf>
class Float8HalfSource {
 public:
  // For rows beyond the last ones others: nobody reads their results.
  __device__ Float8HalfSource(const Float8Matrices& p, int weight_row, int line)
      : scale_bytes_(LineScales::HalfBytes(p, weight_row)), scale_stride_(p.num_weight_rows) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int row = min(weight_row + i * kRowsAtOnce, p.num_weight_rows - kRowsAtOnce);
      pieces_[i] = p.tiles + TileLineAt(row, line, p.num_lines);
    }
    scales_ = p.weight_scales + static_cast<int64_t>(line) * p.num_weight_rows + weight_row;
  }
  // To shared memory, where the bytes arrive at the mbarrier: rows of each CTA of `ctas`, or of
  // this one where it is 0, and scales.
  __device__ void LoadRows(uint32_t to, uint32_t mbarrier, uint16_t ctas = 0) const {
    constexpr int kBytes = kRowsAtOnce * kStepColumns;
    if (ctas == 0) {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) CopyBytes(to + i * kBytes, pieces_[i], kBytes, mbarrier);
    } else {
#pragma unroll
      for (int i = 0; i < kPieces; ++i) {
        CopyBytesToAll(to + i * kBytes, pieces_[i], kBytes, mbarrier, ctas);
      }
    }
  }
  __device__ int scale_bytes() const { return scale_bytes_; }
  __device__ void LoadScales(uint32_t to, uint32_t mbarrier) const {
    if (scale_bytes_ > 0) CopyBytes(to, scales_, scale_bytes_, mbarrier);
  }
  __device__ void Next() {
#pragma unroll
    for (const uint8_t*& piece : pieces_) piece += kBlockRows * kStepColumns;
    scales_ += scale_stride_;
  }

 private:
  // That lie next to each other.
  static constexpr int kRowsAtOnce = kHalf % 64 == 0 ? 64 : kHalf % 32 == 0 ? 32 : 16;
  static constexpr int kPieces = kHalf / kRowsAtOnce;
  static_assert(kHalf % kRowsAtOnce == 0);

  const uint8_t* pieces_[kPieces];
  const float* scales_;
  int scale_bytes_, scale_stride_;
};

// The same of the scales of x. Beyond its last rows the last ones again: nobody reads their
// results.
template <int kXRows>
class Float8XScalesSource {
 public:
  __device__ Float8XScalesSource(const Float8Matrices& p, int first_row, int line)
      : scales_(p.x_scales + static_cast<int64_t>(line) * p.x_stride +
                min(first_row, p.x_stride - kXRows)),
        stride_(p.x_stride) {}
  __device__ void Load(uint32_t to, uint32_t mbarrier) const {
    CopyBytes(to, scales_, kXRows * 4, mbarrier);
  }
  __device__ void Next() { scales_ += stride_; }

 private:
  const float* scales_;
  int stride_;
};

// The scales of a line of the weight's rows, which are at `scales` in shared memory: whether each
// 32 neighbours share one, as blocks of 128 x 128 do, which are then in `shared`; else that has
// ones. The whole warp.
template <int kShared>
__device__ __forceinline__ bool ShareScales(uint32_t scales, float (&shared)[kShared]) {
  uint32_t different = 0;
#pragma unroll
  for (int i = 0; i < kShared; ++i) {
    const uint32_t first = LoadShared4(scales + i * 128);
    different |= first ^ LoadShared4(scales + i * 128 + threadIdx.x % 32 * 4);
    shared[i] = __uint_as_float(first);
  }
  const bool all = __all_sync(~0u, different == 0);
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
