// The warpgroup that loads, for attention on sm_90a. Its first warp takes items from the work list
// and has the copy engine bring K and V, a block of the cache at a time; its other warps bring the
// queries. Device code only.
#pragma once

#include "kernels/base/types.h"
#include "kernels/cuda/attention/hopper_attention.h"
#include "kernels/cuda/attention/hopper_shape.cuh"
#include "kernels/cuda/attention/mma.cuh"
#include "kernels/cuda/attention/tile_rows.cuh"

namespace quire::cuda {

// The first warp. K and V of a tile of keys have stages and barriers of their own.
template <typename Shape>
class KeyLoader {
 public:
  __device__ KeyLoader(const HopperParams& p, const HopperShared<Shape>& shared)
      : p_(p),
        shared_(shared),
        lane_(threadIdx.x % 32),
        num_pages_(max(Shape::kTileKeys >> p.tiled.block_shift, 1)) {}

  __device__ void Run() {
    WorkListState* state = p_.tiled.work.state;
    const int32_t num_items = state->num_items * p_.tiled.num_kv_heads;
    int32_t index = blockIdx.x;
    for (uint32_t n = 0;; ++n) {
      const bool has_item = index < num_items;
      WorkItem work = {};
      if (has_item) work = p_.tiled.work.items[index / p_.tiled.num_kv_heads];
      Publish(n, has_item ? index : -1, work);
      if (!has_item) break;
      // The number of the item after this one arrives while this one's keys do.
      int32_t next = 0;
      if (lane_ == 0) next = gridDim.x + atomicAdd(&state->next, 1);
      LoadItem(MakeItem(p_.tiled, work, index % p_.tiled.num_kv_heads));
      index = __shfl_sync(0xffffffff, next, 0);
    }
    if (lane_ == 0 && atomicAdd(&state->finished, 1) == gridDim.x - 1) {
      state->next = 0;
      state->finished = 0;
    }
  }

 private:
  __device__ void Publish(uint32_t n, int32_t index, const WorkItem& work) {
    const RingUse<2> use(n);
    Wait(shared_.item_free(use.slot), use.parity ^ 1);
    if (lane_ == 0) {
      shared_.item(use.slot) = {index, work};
      Arrive(shared_.item_full(use.slot));
    }
  }

  // V follows one tile behind K: a computing group wants the next scores before it multiplies.
  __device__ void LoadItem(const TileItem& item) {
    if (item.key_end <= item.key_begin) return;
    const int32_t first_tile = item.key_begin / Shape::kTileKeys;
    const int32_t last_tile = (item.key_end - 1) / Shape::kTileKeys;
    int32_t blocks = BlocksOf(item, first_tile);
    LoadKeys(item, blocks, num_tiles_);
    for (int32_t tile = first_tile; tile <= last_tile; ++tile) {
      const int32_t next_blocks = BlocksOf(item, tile + 1);
      if (tile < last_tile) LoadKeys(item, next_blocks, num_tiles_ + 1);
      LoadValues(item, blocks, num_tiles_);
      blocks = next_blocks;
      ++num_tiles_;
    }
  }

  // Lane i: the block that holds the tile's keys from i * block_size on; kNoBlock where none is to
  // be read.
  __device__ int32_t BlocksOf(const TileItem& item, int32_t tile) const {
    const int32_t key = tile * Shape::kTileKeys + (lane_ << p_.tiled.block_shift);
    const bool is_read = lane_ < num_pages_ && key < item.key_end &&
                         key + (1 << p_.tiled.block_shift) > item.key_begin;
    return is_read ? p_.tiled.pages.kv_indices[item.first_page + (key >> p_.tiled.block_shift)]
                   : kNoBlock;
  }

  // Of the n-th tile of all.
  __device__ void LoadKeys(const TileItem& item, int32_t blocks, uint32_t n) const {
    Load(p_.k_map, item, blocks, n, shared_.keys_free(0), shared_.keys_full(0), shared_.keys(0));
  }
  __device__ void LoadValues(const TileItem& item, int32_t blocks, uint32_t n) const {
    Load(p_.v_map, item, blocks, n, shared_.values_free(0), shared_.values_full(0),
         shared_.values(0));
  }

  // A lane copies 64 columns of a block. The barriers and stages given are the first of the ring.
  __device__ void Load(const CUtensorMap& map, const TileItem& item, int32_t blocks, uint32_t n,
                       uint32_t free, uint32_t full, uint32_t stages) const {
    const RingUse<Shape::kStages> use(n);
    full += 8 * use.slot;
    Wait(free + 8 * use.slot, use.parity ^ 1);
    if (lane_ == 0) ArriveExpectingBytes(full, Shape::kKeyBytes);
    const int32_t page = lane_ % num_pages_;
    const int32_t column_block = lane_ / num_pages_;
    const int32_t block = __shfl_sync(0xffffffff, blocks, page);
    if (column_block < Shape::kBlocks) {
      const int32_t row = column_block * Shape::kTileKeys + (page << p_.tiled.block_shift);
      CopyBox(stages + use.slot * Shape::kKeyBytes + row * Shape::kLineBytes, map,
              column_block * 64, 0, item.kv_head, block, full);
    }
  }

  const HopperParams& p_;
  const HopperShared<Shape>& shared_;
  const int lane_;
  const int32_t num_pages_;  // of a tile
  uint32_t num_tiles_ = 0;   // loaded so far, of all items
};

// The other warps. Rows that the tile does not have are zeros.
template <typename Shape>
__device__ void LoadQueries(const TiledParams& p, const HopperShared<Shape>& shared) {
  constexpr int kLoaders = 32 * Shape::kQueryWarps;
  constexpr int kRowChunks = Shape::kHeadDim / 8;
  const auto* q = static_cast<const typename Shape::Element*>(p.q);
  for (uint32_t n = 0;; ++n) {
    const RingUse<2> use(n);
    Wait(shared.item_full(use.slot), use.parity);
    const int32_t index = shared.item(use.slot).index;
    if (index < 0) return;
    const TileItem item = MakeItem(p, shared.item(use.slot).work, index % p.num_kv_heads);
    __syncwarp();
    if (threadIdx.x % 32 == 0) Arrive(shared.item_free(use.slot));

    Wait(shared.queries_free(), (n & 1) ^ 1);
    for (int i = threadIdx.x - 32; i < Shape::kTileRows * kRowChunks; i += kLoaders) {
      const int row = i / kRowChunks;
      const int chunk = i % kRowChunks;
      const bool valid = row < item.num_rows;
      const int32_t source = valid ? row : 0;
      CopyAsync16(shared.queries() + chunk / 8 * Shape::kTileRows * Shape::kLineBytes +
                      Shape::Swizzle(row, chunk % 8),
                  q + item.TokenOf(source) * p.q_row_stride +
                      item.HeadOf(source) * Shape::kHeadDim + chunk * 8,
                  valid);
    }
    CommitCopies();
    WaitForCopies<0>();
    FenceSharedWrites();
    Arrive(shared.queries_full());
  }
}

}  // namespace quire::cuda
