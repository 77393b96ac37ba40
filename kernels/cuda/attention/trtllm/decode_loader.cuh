// The two warps that load, for decodes: one brings K, the other V, by TMA, a block of the cache and
// a line of its rows at a time, into the ring of tiles. They run through all items of the CTA as
// far ahead as the ring has room, so that nothing drains between items. Device code only.
#pragma once

#include "kernels/cuda/attention/trtllm/decode_shape.cuh"

namespace quire::cuda::trtllm {

template <typename Shape>
class DecodeLoader {
 public:
  __device__ DecodeLoader(const DecodeParams& p, const DecodeShared<Shape>& shared, int kind)
      : p_(p),
        shared_(shared),
        map_(kind == 0 ? p.k_map : p.v_map),
        kind_(kind),
        lane_(static_cast<int>(threadIdx.x) % 32),
        tile_blocks_(kTileKeys >> p.block_shift) {}

  __device__ void Run(CtaShare share) {
    if (share.last < share.first) return;
    DecodeItem item = p_.items[share.first];
    DecodeItem next = ItemOr(share.first + 1, share, item);
    int32_t blocks = BlocksOf(item, 0);
    for (int32_t index = share.first; index <= share.last; ++index) {
      const DecodeItem after = ItemOr(index + 2, share, next);
      const int32_t num_blocks = item.num_tiles * tile_blocks_;
      for (int32_t block = 0; block < num_blocks; block += 32) {
        // These arrive while the tiles before them are sent for.
        const bool is_last = block + 32 >= num_blocks;
        const int32_t following = is_last ? BlocksOf(next, 0) : BlocksOf(item, block + 32);
        const int32_t in_lanes = min(num_blocks - block, 32);
        const int32_t kv_head = item.unit / p_.layout.row_tiles;
        for (int32_t i = 0; i < in_lanes; i += tile_blocks_) LoadTile(kv_head, blocks, i);
        blocks = following;
      }
      item = next;
      next = after;
    }
  }

 private:
  __device__ DecodeItem ItemOr(int32_t index, CtaShare share, const DecodeItem& other) const {
    return index <= share.last ? p_.items[index] : other;
  }

  // Lane i: block `first` + i of those that hold the item's tiles; kNoBlock where nothing is to be
  // read, which TMA makes zeros.
  __device__ int32_t BlocksOf(const DecodeItem& item, int32_t first) const {
    const int32_t in_item = first + lane_;
    const int32_t block = item.first_tile * tile_blocks_ + in_item;
    const int32_t key = block << p_.block_shift;
    const int32_t key_begin = p_.variant.KeyBegin(item.seq_len - (p_.layout.query_len - 1));
    const bool is_read = in_item < item.num_tiles * tile_blocks_ && key < item.seq_len &&
                         key + (1 << p_.block_shift) > key_begin;
    return is_read ? p_.block_tables[item.table_row * p_.block_table_stride + block] : kNoBlock;
  }

  // The blocks of the tile are those of lanes `first` on.
  __device__ void LoadTile(int32_t kv_head, int32_t blocks, int32_t first) {
    const uint32_t arrived = shared_.arrived(kind_, arrival_.index);
    Wait(shared_.free(kind_, slot_.index), slot_.parity ^ 1);
    if (ElectLane()) ArriveExpectingBytes(arrived, Shape::kSlotBytes);
    uint32_t to = shared_.tile(kind_, slot_.index);
    for (int32_t i = 0; i < tile_blocks_; ++i) {
      const int32_t block = __shfl_sync(0xffffffff, blocks, first + i);
      if (ElectLane()) {
#pragma unroll
        for (int line = 0; line < Shape::kLineBlocks; ++line) {
          CopyBox(to + line * Shape::kBlockBytes, map_,
                  line * (Shape::kLineBytes / static_cast<int>(sizeof(typename Shape::Element))), 0,
                  kv_head, block, arrived);
        }
      }
      to += Shape::kLineBytes << p_.block_shift;
    }
    slot_.Advance(1, p_.layout.ring_tiles);
    arrival_.Advance(1, p_.layout.num_arrivals);
  }

  const DecodeParams& p_;
  const DecodeShared<Shape>& shared_;
  const CUtensorMap& map_;
  const int kind_;
  const int lane_;
  const int32_t tile_blocks_;  // blocks of the cache in a tile of keys
  RingPlace slot_;
  RingPlace arrival_;
};

}  // namespace quire::cuda::trtllm
