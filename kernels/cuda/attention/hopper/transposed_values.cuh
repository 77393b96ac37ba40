// V of 8-bit elements transposed, for gemms whose operands must have their depth, here the keys,
// along the memory rows. TMA brings tiles of [tokens, 128] to a ring of their own; some warps of
// the loading group transpose a part of each. Both forms have rows of 128 bytes with the 128-byte
// swizzle. Device code only.
//
// Where token i of each 32 comes to lie: the scores' fragments give a lane tokens 2t, 2t + 1,
// 8 + 2t, 8 + 2t + 1, 16 + 2t, ..., and an operand of 8-bit elements wants 4t .. 4t + 3 and
// 16 + 4t .. of it (t = lane % 4). So probs need no shuffles: it is the values that are permuted
// (as FlashAttention-3 does it).
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/hopper/hopper_shape.cuh"
#include "kernels/cuda/attention/tiles/tile_rows.cuh"
#include "kernels/cuda/runtime/mma.cuh"

namespace quire::cuda {

template <typename Shape>
class ValuesTransposer {
 public:
  // Which of Shape::kTransposers this warp is.
  __device__ ValuesTransposer(const HopperShared<Shape>& shared, int index)
      : shared_(shared), index_(index), lane_(static_cast<int>(threadIdx.x % 32)) {}

  // Its part of all tiles of an item.
  __device__ void TransposeItem(const TileItem& item) {
    if (item.key_end <= item.key_begin) return;
    const int32_t end_tile = (item.key_end - 1) / Shape::kTileKeys + 1;
    for (int32_t tile = item.key_begin / Shape::kTileKeys; tile < end_tile; ++tile) {
      const int32_t num_valid = item.seq_len - tile * Shape::kTileKeys;
      const RingUse<Shape::kRawStages> raw(num_transposed_);
      const RingUse<Shape::kStages> use(num_transposed_);
      ++num_transposed_;
      Wait(shared_.raw_values_full(raw.stage), raw.parity);
      Wait(shared_.values_free(use.stage), use.parity ^ 1);
      const uint32_t from = shared_.raw_values() + raw.stage * Shape::kRawBytes;
      const uint32_t to = shared_.values(use.stage);
      if (num_valid >= Shape::kTileKeys) {
        Transpose<false>(from, to, num_valid);
      } else {
        Transpose<true>(from, to, num_valid);
      }
      FenceSharedWrites();
      Arrive(shared_.raw_values_free(raw.stage));
      Arrive(shared_.values_full(use.stage));
      __syncwarp();
    }
  }

 private:
  // kClears: tokens from `num_valid` on become zeros, whatever they hold.
  template <bool kClears>
  __device__ void Transpose(uint32_t from, uint32_t to, int32_t num_valid) const {
    constexpr int kGroups = Shape::kTileKeys / 32, kPieces = Shape::kHeadDim / 16;
    // This lane's line of the four 8 x 8 matrices that an instruction loads or stores.
    const int matrix = lane_ / 8, line = lane_ % 8;
    const int row = line * 2 + matrix % 2;
    from += (matrix * 8 + line) * Shape::kLineBytes;
    to += row * Shape::kLineBytes + ((matrix / 2 ^ row % 8) << 4);
#pragma unroll 1
    for (int piece = index_; piece < kPieces; piece += Shape::kTransposers) {
      uint32_t pairs[kGroups][4];  // of 8 tokens each: two tokens of two columns
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        LoadMatricesTransposed(from + group * 32 * Shape::kLineBytes + ((piece ^ line) << 4),
                               pairs[group]);
      }
#pragma unroll
      for (int group = 0; group < kGroups; ++group) {
        uint32_t(&four)[4] = pairs[group];
        if constexpr (kClears) {
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            const int32_t token = group * 32 + i * 8 + lane_ % 4 * 2;
            if (token >= num_valid) four[i] = 0;
            if (token + 1 >= num_valid) four[i] &= 0xffff;
          }
        }
        const uint32_t quads[4] = {
            __byte_perm(four[0], four[1], 0x6420), __byte_perm(four[0], four[1], 0x7531),
            __byte_perm(four[2], four[3], 0x6420), __byte_perm(four[2], four[3], 0x7531)};
        StoreMatrices((to ^ (group << 5)) + piece * 16 * Shape::kLineBytes, quads);
      }
    }
  }

  const HopperShared<Shape>& shared_;
  const int index_;
  const int lane_;
  uint32_t num_transposed_ = 0;  // tiles, of all items
};

}  // namespace quire::cuda
