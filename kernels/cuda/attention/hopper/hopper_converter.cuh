// Loading K or V of 8-bit elements, for attention on sm_90a: TMA brings them as they are to a ring
// of their own. Two warps widen half of a tile each to float16, in the swizzled tiles that gemms
// read: the one that sends for it and, between items, one of those that load queries. Device code
// only.
#pragma once

#include "kernels/cuda/attention/hopper/hopper_attention.h"
#include "kernels/cuda/attention/hopper/hopper_shape.cuh"
#include "kernels/cuda/attention/tiles/tile_rows.cuh"
#include "kernels/cuda/runtime/float8.cuh"

namespace quire::cuda {

// Half of every tile, of all items. kKeys: of K, else of V.
template <typename Shape, bool kKeys, int kHalf>
class TileConverter {
 public:
  __device__ TileConverter(const TiledParams& p, const HopperShared<Shape>& shared)
      : p_(p), shared_(shared), lane_(static_cast<int>(threadIdx.x % 32)) {}

  // All tiles of an item.
  __device__ void ConvertItem(const TileItem& item) {
    if (item.key_end <= item.key_begin) return;
    const int32_t end_tile = (item.key_end - 1) / Shape::kTileKeys + 1;
    for (int32_t tile = item.key_begin / Shape::kTileKeys; tile < end_tile; ++tile) Convert();
  }

  __device__ void Convert() {
    const RingUse<Shape::kRawStages> raw(num_converted_);
    const RingUse<Shape::kStages> use(num_converted_);
    ++num_converted_;
    Wait(RawFull(raw.stage), raw.parity);
    Wait(kKeys ? shared_.keys_free(use.stage) : shared_.values_free(use.stage), use.parity ^ 1);
    const uint32_t from = Raw(raw.stage);
    const uint32_t to = kKeys ? shared_.keys(use.stage) : shared_.values(use.stage);
    DispatchFloat8(p_.kv_dtype,
                   [&]<__nv_fp8_interpretation_t kFormat>() { ConvertTile<kFormat>(from, to); });
    FenceSharedWrites();
    if (kHalf == 1) Arrive(RawFree(raw.stage));
    Arrive(kKeys ? shared_.keys_full(use.stage) : shared_.values_full(use.stage));
    __syncwarp();
  }

 private:
  __device__ uint32_t Raw(int stage) const {
    return (kKeys ? shared_.raw_keys() : shared_.raw_values()) + stage * Shape::kRawBytes;
  }
  __device__ uint32_t RawFull(int stage) const {
    return kKeys ? shared_.raw_keys_full(stage) : shared_.raw_values_full(stage);
  }
  __device__ uint32_t RawFree(int stage) const {
    return kKeys ? shared_.raw_keys_free(stage) : shared_.raw_values_free(stage);
  }

  // A lane takes 16 elements at a time. Eight lanes read, and write, in different banks: where a
  // row has more than 64 elements, the upper four of them are in the neighbouring row.
  template <__nv_fp8_interpretation_t kFormat>
  __device__ void ConvertTile(uint32_t from, uint32_t to) const {
    constexpr int kPieces = Shape::kHeadDim / 16;  // of a row
    constexpr int kRows = 32 / kPieces;            // that a warp takes at once
    const int upper = lane_ / 4 % 2;
    const int quarter = lane_ / 8;
    int row, raw_piece;
    if constexpr (kPieces == 4) {
      row = quarter * 2 + upper;
      raw_piece = lane_ % 4;
    } else {
      row = (kPieces == 8 ? quarter / 2 * 2 : 0) + (upper ^ quarter % 2);
      raw_piece = lane_ % 8 + (kPieces == 8 ? 0 : quarter / 2 * 8);
    }
    const uint32_t block = to + raw_piece / 4 * (Shape::kTileKeys * Shape::kLineBytes);
    const int piece = raw_piece % 4 * 2;
    from += row * Shape::kHeadDim + raw_piece * 16;
    // Loads, then stores: a lone warp waits for each batch once.
    constexpr int kHalfKeys = Shape::kTileKeys / 2;
    constexpr int kBatch = Shape::kComputeGroups == 2 ? 4 : 2;  // as many as registers hold
#pragma unroll 1
    for (int i = kHalf * kHalfKeys; i < (kHalf + 1) * kHalfKeys; i += kBatch * kRows) {
      uint4 raw[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        raw[j] = LoadShared16(from + (i + j * kRows) * Shape::kHeadDim);
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        uint4 low, high;
        WidenQuad<kFormat>(raw[j].x, low.x, low.y);
        WidenQuad<kFormat>(raw[j].y, low.z, low.w);
        WidenQuad<kFormat>(raw[j].z, high.x, high.y);
        WidenQuad<kFormat>(raw[j].w, high.z, high.w);
        const uint32_t at = block + Shape::Swizzle(row + i + j * kRows, piece);
        StoreShared16(at, low);
        StoreShared16(at ^ 16, high);  // the odd piece beside an even one
      }
    }
  }

  const TiledParams& p_;
  const HopperShared<Shape>& shared_;
  const int lane_;
  uint32_t num_converted_ = 0;
};

template <typename Shape, bool kKeys>
class ConvertingLoader {
 public:
  __device__ ConvertingLoader(const TiledParams& p, const CUtensorMap& map,
                              const HopperShared<Shape>& shared)
      : p_(p),
        map_(map),
        shared_(shared),
        converter_(p, shared),
        lane_(static_cast<int>(threadIdx.x % 32)),
        num_pages_(max(Shape::kTileKeys >> p.block_shift, 1)) {}

  __device__ void LoadItem(const TileItem& item) {
    if (item.key_end <= item.key_begin) return;
    const int32_t end_tile = (item.key_end - 1) / Shape::kTileKeys + 1;
    const int32_t first_tile = item.key_begin / Shape::kTileKeys;
    int32_t sent = first_tile;
    int32_t blocks = BlocksOf(item, sent);
    for (int32_t tile = first_tile; tile < end_tile; ++tile) {
      for (; sent < end_tile && sent < tile + Shape::kRawStages; ++sent) {
        const int32_t next_blocks = BlocksOf(item, sent + 1);
        Send(item.kv_head, blocks);
        blocks = next_blocks;
      }
      converter_.Convert();
    }
  }

 private:
  // Lane i: the block that holds the tile's keys from i * block_size on; kNoBlock where none is to
  // be read.
  __device__ int32_t BlocksOf(const TileItem& item, int32_t tile) const {
    const int32_t key = tile * Shape::kTileKeys + (lane_ << p_.block_shift);
    const bool is_read =
        lane_ < num_pages_ && key < item.key_end && key + (1 << p_.block_shift) > item.key_begin;
    return is_read ? p_.pages.kv_indices[item.first_page + (key >> p_.block_shift)] : kNoBlock;
  }

  // This warp has converted its half of what was in the stage.
  __device__ void Send(int32_t kv_head, int32_t blocks) {
    const RingUse<Shape::kRawStages> use(num_sent_++);
    const int stage = Uniform(use.stage);
    Wait(kKeys ? shared_.raw_keys_free(stage) : shared_.raw_values_free(stage), use.parity ^ 1);
    const uint32_t full = kKeys ? shared_.raw_keys_full(stage) : shared_.raw_values_full(stage);
    if (ElectLane()) ArriveExpectingBytes(full, Shape::kRawBytes);
    uint32_t to = (kKeys ? shared_.raw_keys() : shared_.raw_values()) + stage * Shape::kRawBytes;
    for (int32_t page = 0; page < num_pages_; ++page) {
      const int32_t block = __shfl_sync(0xffffffff, blocks, page);
      if (ElectLane()) CopyBox(to, map_, 0, 0, kv_head, block, full);
      to += Shape::kHeadDim << p_.block_shift;
    }
  }

  const TiledParams& p_;
  const CUtensorMap& map_;
  const HopperShared<Shape>& shared_;
  TileConverter<Shape, kKeys, 0> converter_;
  const int lane_;
  const int32_t num_pages_;  // of a tile
  uint32_t num_sent_ = 0;    // tiles, of all items
};

}  // namespace quire::cuda
