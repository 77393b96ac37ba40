// How the prompts of a step are cut into tiles, and matrices of a tile in shared memory. A tile is
// at most kTileTokens tokens of one sequence, up to the next multiple of kTileTokens positions:
// cuts there change no tile. Device code.
#pragma once

#include <cstdint>

#include "kernels/cuda/runtime/async.cuh"
#include "kernels/cuda/runtime/mma.cuh"
#include "kernels/cuda/runtime/wgmma.cuh"
#include "kernels/cuda/runtime/wgmma_registers.cuh"
#include "kernels/cuda/state/gated_delta_kernels.h"

namespace quire::cuda {

// The tiles of a sequence have slots, in order, of which some may stay empty: where sequences
// begin is then known without a look at the ones before.
__device__ inline int FirstSlot(const StateBatch& batch, int seq) {
  const int first_token = batch.cu_seqlens_q[seq] - batch.cu_seqlens_q[batch.num_decodes];
  return (first_token + (seq - batch.num_decodes) * 2 * (kTileTokens - 1)) / kTileTokens;
}

// A sequence's tokens as tiles.
struct TiledSequence {
  int first_row;   // of the batch
  int num_tokens;  // of the step
  int offset;      // tokens of its first tile that earlier steps had
  int first_slot;

  __device__ TiledSequence(const StateBatch& batch, int seq)
      : first_row(batch.cu_seqlens_q[seq]),
        num_tokens(batch.cu_seqlens_q[seq + 1] - first_row),
        offset((batch.seq_lens[seq] - num_tokens) % kTileTokens),
        first_slot(FirstSlot(batch, seq)) {}

  __device__ int num_tiles() const {
    return num_tokens == 0 ? 0 : (offset + num_tokens + kTileTokens - 1) / kTileTokens;
  }
  // In tokens of the step.
  __device__ int Begin(int tile) const { return max(tile * kTileTokens - offset, 0); }
  __device__ int End(int tile) const { return min((tile + 1) * kTileTokens - offset, num_tokens); }
};

// The last prompt that begins at this slot or before it.
__device__ inline int SequenceOfSlot(const StateBatch& batch, int slot) {
  int first = batch.num_decodes, last = batch.num_seqs - 1;
  while (first < last) {
    const int middle = (first + last + 1) / 2;
    if (FirstSlot(batch, middle) <= slot) {
      first = middle;
    } else {
      last = middle - 1;
    }
  }
  return first;
}

// A matrix of kTileTokens rows of 16-bit elements in shared memory. A line is 64 columns, 128
// bytes; its pieces of 16 bytes are exchanged by the row's number modulo 8, as wgmma has them. The
// lines of all rows lie one behind the other, then those of the next 64 columns. At an address
// aligned to kAlignment.
template <int kColumns>
struct SharedMatrix {
  static constexpr int kAlignment = 1024;
  static constexpr int kLineBytes = 128;
  static constexpr int kBlockBytes = kTileTokens * kLineBytes;
  static constexpr int kBytes = kColumns / 64 * kBlockBytes;
  uint32_t address;

  __device__ uint32_t Piece(int row, int piece) const {
    return address + piece / 8 * kBlockBytes + row * kLineBytes + (piece % 8 ^ row % 8) * 16;
  }

  // From memory, rows `stride` elements apart; zeros for those from `num_rows` on.
  template <int kThreads>
  __device__ void CopyFrom(const void* from, int64_t stride, int num_rows) const {
    constexpr int kPieces = kColumns / 8;
    static_assert(kTileTokens * kPieces % kThreads == 0);
#pragma unroll
    for (int i = 0; i < kTileTokens * kPieces / kThreads; ++i) {
      const int at = i * kThreads + threadIdx.x;
      const int row = at / kPieces, piece = at % kPieces;
      const bool valid = row < num_rows;
      CopyAsync16(Piece(row, piece),
                  static_cast<const char*>(from) + ((valid ? row : 0) * stride + piece * 8) * 2,
                  valid);
    }
  }

  // The 16 by 16 elements at [row, column], both multiples of 16, as fragments of mma.m16n8k16:
  // as rows of its first operand,
  __device__ void LoadRows(int row, int column, uint32_t (&out)[4]) const {
    const int lane = threadIdx.x % 32;
    LoadMatrices(Piece(row + lane % 16, column / 8 + lane / 16), out);
  }
  // or as its second one, for sums over the columns, the rows being its two times eight columns,
  __device__ void LoadColumns(int row, int column, uint32_t (&out)[4]) const {
    const int lane = threadIdx.x % 32;
    LoadMatrices(Piece(row + lane % 8 + lane / 16 * 8, column / 8 + lane / 8 % 2), out);
  }
  // or for sums over the rows, the columns being its two times eight columns.
  __device__ void LoadTransposed(int row, int column, uint32_t (&out)[4]) const {
    const int lane = threadIdx.x % 32;
    LoadMatricesTransposed(Piece(row + lane % 16, column / 8 + lane / 16), out);
  }
};

// A tile of a v head in shared memory.
struct ScanStage {
  using Vectors = SharedMatrix<kDeltaHeadDim>;
  using Square = SharedMatrix<kTileTokens>;
  static constexpr int kGatesAt = 4 * Vectors::kBytes + 2 * Square::kBytes;
  static constexpr int kGatesBytes = 3 * kTileTokens * int{sizeof(float)};
  static constexpr int kBytes = kGatesAt + Vectors::kAlignment;
  static_assert(kGatesBytes <= Vectors::kAlignment);

  unsigned char* base;

  __device__ Vectors keys() const { return {SharedAddress(base)}; }
  __device__ Vectors queries() const { return {keys().address + Vectors::kBytes}; }
  __device__ Vectors values() const { return {keys().address + 2 * Vectors::kBytes}; }
  __device__ Vectors z() const { return {keys().address + 3 * Vectors::kBytes}; }
  __device__ Square solved() const { return {keys().address + 4 * Vectors::kBytes}; }
  __device__ Square scores() const { return {solved().address + Square::kBytes}; }
  // As in TileRoom.
  __device__ float* sums() const { return reinterpret_cast<float*>(base + kGatesAt); }
  __device__ const float* decays() const { return sums() + kTileTokens; }
  __device__ const float* remains() const { return sums() + 2 * kTileTokens; }
};
// Gemms of a warpgroup, 64 rows of which each warp has 16, of float16. The first operand is in
// registers, as kSteps fragments of 16 columns. They are in flight until WaitForGemms (wgmma.cuh).

// sums [64, kTileTokens] = first * matrix^T, plus sums if `accumulate`.
template <int kSteps, int kColumns>
__device__ __forceinline__ void StartRowSums(const uint32_t (&first)[kSteps][4],
                                             const SharedMatrix<kColumns>& matrix, bool accumulate,
                                             float (&sums)[1][kTileTokens / 8][4]) {
  static_assert(kColumns == 16 * kSteps);
  const uint64_t second = DescribeMatrix(matrix.address, 8 * matrix.kLineBytes, 0);
  FenceGemms();
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    StartRowsDot<__half>(first[step],
                         Advance(second, step / 4 * matrix.kBlockBytes + step % 4 * 32),
                         accumulate || step > 0, sums);
  }
  CommitGemms();
}

// sums [64, kColumns] += first * matrix.
template <int kColumns>
__device__ __forceinline__ void StartColumnSums(const uint32_t (&first)[kTileTokens / 16][4],
                                                const SharedMatrix<kColumns>& matrix,
                                                float (&sums)[1][kColumns / 8][4]) {
  const uint64_t second = DescribeMatrix(matrix.address, 8 * matrix.kLineBytes, matrix.kBlockBytes);
  FenceGemms();
#pragma unroll
  for (int step = 0; step < kTileTokens / 16; ++step) {
    StartDot<__half>(first[step], Advance(second, step * 16 * matrix.kLineBytes), sums);
  }
  CommitGemms();
}

// Two floats as float16, the first in the lower half; what is beyond its range, its largest number.
__device__ __forceinline__ uint32_t PackHalves(float low, float high) {
  uint32_t packed;
  asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;\n" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

}  // namespace quire::cuda
