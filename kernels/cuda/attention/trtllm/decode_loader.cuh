// The two warps that load, for decodes: one brings K, the other V, by TMA, a block of the cache and
// a line of its rows at a time, into the ring of tiles. They run through all items of the CTA as
// far ahead as the ring has room, so that nothing drains between items. Keys of earlier steps are
// sent for before the kernel's predecessor, which writes this step's, is complete. Device code
// only.
#pragma once

#include "kernels/cuda/attention/trtllm/decode_items.cuh"
#include "kernels/cuda/runtime/launch.cuh"

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
        tile_blocks_(p.blocks.TileBlocks()) {}

  __device__ void Run() {
    static_assert(kShareBlocks == 32);
    int32_t blocks = __ldcg(p_.shares[blockIdx.x].blocks + lane_);
    const DecodeShareItems share = ReadPlan(&p_.shares[blockIdx.x].items);
    DecodeItem item = share.item;
    const int32_t last = share.last;
    DecodeItem next = ItemOr(share.first + 1, last, item);
    bool has_waited = false;
    for (int32_t index = share.first; index <= last; ++index) {
      const DecodeItem after = ItemOr(index + 2, last, next);
      const int32_t num_blocks = item.num_tiles * tile_blocks_;
      const int32_t kv_head = item.unit / p_.layout.row_tiles;
      const int32_t num_old_keys = item.seq_len - p_.layout.query_len;
      // The item's blocks that are full of keys of earlier steps.
      const int32_t num_old_blocks =
          (num_old_keys >> p_.blocks.block_shift) - item.first_tile * tile_blocks_;
      for (int32_t block = 0; block < num_blocks; block += 32) {
        // These arrive while the tiles before them are sent for.
        const bool is_last = block + 32 >= num_blocks;
        const int32_t following = is_last ? BlockOf(next, 0) : BlockOf(item, block + 32);
        const int32_t in_lanes = min(num_blocks - block, 32);
        for (int32_t i = 0; i < in_lanes; i += tile_blocks_) {
          if (!has_waited && block + i + tile_blocks_ > num_old_blocks) {
            WaitForPredecessor();
            has_waited = true;
          }
          if (item.seq_len > 0) {
            LoadTile(kv_head, blocks, i);
          } else {
            PassTile();
          }
        }
        blocks = following;
      }
      item = next;
      next = after;
    }
  }

 private:
  __device__ DecodeItem ItemOr(int32_t index, int32_t last, const DecodeItem& other) const {
    return index <= last ? ReadPlan(p_.items + index) : other;
  }

  // Lane i: block `first` + i of the item.
  __device__ int32_t BlockOf(const DecodeItem& item, int32_t first) const {
    return p_.blocks.BlockOf(item, first + lane_,
                             p_.variant.KeyBegin(item.seq_len - (p_.layout.query_len - 1)));
  }

  // Passes a tile of a sequence without keys: its values are cleared and its logits masked. A box
  // that lies outside of the tensor reads nothing, but it faults where the tensor begins without
  // memory behind it. The cache begins like this while steps of padding are captured.
  __device__ void PassTile() {
    Wait(shared_.free(kind_, stage_.index), stage_.parity ^ 1);
    if (ElectLane()) Arrive(shared_.arrived(kind_, arrival_.index));
    Advance();
  }

  // The blocks of the tile are those of lanes `first` on.
  __device__ void LoadTile(int32_t kv_head, int32_t blocks, int32_t first) {
    const uint32_t arrived = shared_.arrived(kind_, arrival_.index);
    Wait(shared_.free(kind_, stage_.index), stage_.parity ^ 1);
    if (ElectLane()) ArriveExpectingBytes(arrived, Shape::kStageBytes);
    uint32_t to = shared_.tile(kind_, stage_.index);
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
      to += Shape::kLineBytes << p_.blocks.block_shift;
    }
    Advance();
  }

  __device__ void Advance() {
    stage_.Next(p_.layout.ring_tiles);
    arrival_.Next(p_.layout.num_arrivals);
  }

  const DecodeParams& p_;
  const DecodeShared<Shape>& shared_;
  const CUtensorMap& map_;
  const int kind_;
  const int lane_;
  const int32_t tile_blocks_;  // blocks of the cache in a tile of keys
  RingPlace stage_;
  RingPlace arrival_;
};

}  // namespace quire::cuda::trtllm
