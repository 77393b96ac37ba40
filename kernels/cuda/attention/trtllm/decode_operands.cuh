// The operands of decodes' gemms, m16n8k16 with keys (then columns of V) in m and query rows in n:
// a row of 8 queries costs half of what 16 would. 16-bit caches are multiplied as they are, 8-bit
// ones as float16, which holds both formats exactly. There the order in which columns are summed,
// and the columns that a thread holds, are permuted so that a thread's four bytes need no shuffle.
// Device code only.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention/trtllm/decode_shape.cuh"
#include "kernels/cuda/runtime/float8.cuh"
#include "kernels/cuda/runtime/mma.cuh"

namespace quire::cuda::trtllm {

// An 8 x 8 matrix of 16-bit elements, transposed between lanes.
__device__ __forceinline__ uint32_t Transposed(uint32_t fragment) {
  uint32_t out;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(out) : "r"(fragment));
  return out;
}

template <typename Shape>
struct DecodeOperands {
  using Element = typename Shape::Element;
  // What is multiplied.
  using Operand = std::conditional_t<Shape::kIs8Bit, __half, Element>;
  static constexpr auto kFormat = std::is_same_v<Element, __nv_fp8_e4m3> ? __NV_E4M3 : __NV_E5M2;
  static constexpr int kSteps = Shape::kHeadDim / 16;
  using Queries = uint32_t[Shape::kRowTiles][kSteps][2];

  // A lane's accumulators (c0, c1) belong to this one of 16 columns of V, and (c2, c3) to the
  // column kSecondColumn after it.
  static __device__ int FirstColumn() {
    const int row = static_cast<int>(threadIdx.x) % 32 / 4;
    return Shape::kIs8Bit ? 2 * row : row;
  }
  static constexpr int kSecondColumn = Shape::kIs8Bit ? 1 : 8;

  // scores [64 keys, rows] = K [64, head_dim] * Q^T; `keys` is a tile in shared memory.
  template <typename Scores>
  static __device__ void MultiplyKeys(uint32_t keys, const Queries& q, Scores& scores) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    // Matrices: rows 0-7, rows 8-15, then the same of the next piece.
    const int line = lane % 16;
    const int upper = lane / 16;
    constexpr int kPieceSteps = Shape::kIs8Bit ? 2 : 1;  // of k that two pieces hold
    constexpr int kLinePieces = Shape::kLineBytes / 16;
#pragma unroll
    for (int k = 0; k < kSteps; k += kPieceSteps) {
      const int piece = (Shape::kIs8Bit ? k : 2 * k) + upper;
      const int block = (Shape::kIs8Bit ? k : 2 * k) / kLinePieces;
#pragma unroll
      for (int m = 0; m < kTileKeys / 16; ++m) {
        uint32_t a[4];
        LoadMatrices(keys + block * Shape::kBlockBytes + m * 16 * Shape::kLineBytes +
                         Shape::Swizzle(line, piece % kLinePieces),
                     a);
        if constexpr (Shape::kIs8Bit) {
          uint32_t w[2][4];
          WidenQuad<kFormat>(a[0], w[0][0], w[0][2]);
          WidenQuad<kFormat>(a[1], w[0][1], w[0][3]);
          WidenQuad<kFormat>(a[2], w[1][0], w[1][2]);
          WidenQuad<kFormat>(a[3], w[1][1], w[1][3]);
#pragma unroll
          for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int n = 0; n < Shape::kRowTiles; ++n) {
              MultiplyAdd<Operand>(w[half], q[n][k + half][0], q[n][k + half][1], scores[m][n]);
            }
          }
        } else {
#pragma unroll
          for (int n = 0; n < Shape::kRowTiles; ++n) {
            MultiplyAdd<Operand>(a, q[n][k][0], q[n][k][1], scores[m][n]);
          }
        }
      }
    }
  }

  // out [head_dim, rows] += V^T * probs of keys [16 * m, 16 * m + 16).
  template <typename Out>
  static __device__ void MultiplyValues(uint32_t values, int m,
                                        const uint32_t (&probs)[Shape::kRowTiles][2], Out& out) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    constexpr int kLinePieces = Shape::kLineBytes / 16;
    const uint32_t lines = values + m * 16 * Shape::kLineBytes;
    if constexpr (Shape::kIs8Bit) {
      // Matrices: keys 0-7, keys 8-15, then the same of the next piece.
      const int line = lane % 16;
#pragma unroll
      for (int d = 0; d < kSteps; d += 2) {
        const int piece = d % kLinePieces + lane / 16;
        uint32_t a[4];
        LoadMatricesTransposed(
            lines + d / kLinePieces * Shape::kBlockBytes + Shape::Swizzle(line, piece), a);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          // A register has two columns of two keys: pairs of keys are wanted.
          uint32_t w[4];
          WidenQuad<kFormat>(__byte_perm(a[2 * half], 0, 0x3120), w[0], w[1]);
          WidenQuad<kFormat>(__byte_perm(a[2 * half + 1], 0, 0x3120), w[2], w[3]);
#pragma unroll
          for (int n = 0; n < Shape::kRowTiles; ++n) {
            MultiplyAdd<Operand>(w, probs[n][0], probs[n][1], out[n][d + half]);
          }
        }
      }
    } else {
      // Matrices: columns 0-7 and 8-15 of keys 0-7, then of keys 8-15.
      const int line = lane / 16 * 8 + lane % 8;
#pragma unroll
      for (int d = 0; d < kSteps; ++d) {
        const int piece = 2 * d % kLinePieces + lane / 8 % 2;
        uint32_t a[4];
        LoadMatricesTransposed(
            lines + 2 * d / kLinePieces * Shape::kBlockBytes + Shape::Swizzle(line, piece), a);
#pragma unroll
        for (int n = 0; n < Shape::kRowTiles; ++n) {
          MultiplyAdd<Operand>(a, probs[n][0], probs[n][1], out[n][d]);
        }
      }
    }
  }
};

}  // namespace quire::cuda::trtllm
