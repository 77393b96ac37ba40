// The warpgroup that loads, for attention on sm_90a. Its first warp takes items from the work list
// and has TMA bring K, a block of the cache at a time; its second warp does so with V;
// the others bring the queries. Device code only.
#pragma once

#include "kernels/base/types.h"
#include "kernels/cuda/attention/hopper/hopper_attention.h"
#include "kernels/cuda/attention/hopper/hopper_converter.cuh"
#include "kernels/cuda/attention/hopper/hopper_shape.cuh"
#include "kernels/cuda/attention/hopper/transposed_values.cuh"
#include "kernels/cuda/attention/tiles/tile_rows.cuh"
#include "kernels/cuda/runtime/mma.cuh"

namespace quire::cuda {

// K or V of all items, by one warp: a box of 128 bytes of a block's rows after another, issued by
// one lane from values that the whole warp has in common.
template <typename Shape>
class CacheLoader {
 public:
  // The stages and barriers given are the first of their rings.
  __device__ CacheLoader(const TiledParams& p, const CUtensorMap& map, uint32_t stages,
                         uint32_t full, uint32_t free)
      : p_(p),
        map_(map),
        stages_(stages),
        full_(full),
        free_(free),
        lane_(threadIdx.x % 32),
        num_pages_(max(Shape::kTileKeys >> p.block_shift, 1)) {}

  __device__ void LoadItem(const TileItem& item) {
    if (item.key_end <= item.key_begin) return;
    const int32_t last_tile = (item.key_end - 1) / Shape::kTileKeys;
    int32_t tile = item.key_begin / Shape::kTileKeys;
    int32_t blocks = BlocksOf(item, tile);
    for (; tile <= last_tile; ++tile) {
      const int32_t next_blocks = BlocksOf(item, tile + 1);
      LoadTile(item.kv_head, blocks);
      blocks = next_blocks;
    }
  }

  // Lane i: the block that holds the tile's keys from i * block_size on; kNoBlock where none is to
  // be read.
  __device__ int32_t BlocksOf(const TileItem& item, int32_t tile) const {
    const int32_t key = tile * Shape::kTileKeys + (lane_ << p_.block_shift);
    const bool is_read =
        lane_ < num_pages_ && key < item.key_end && key + (1 << p_.block_shift) > item.key_begin;
    return is_read ? p_.pages.kv_indices[item.first_page + (key >> p_.block_shift)] : kNoBlock;
  }

  __device__ void LoadTile(int32_t kv_head, int32_t blocks) {
    const RingUse<Shape::kStages> use(num_tiles_++);
    const int stage = Uniform(use.stage);
    const uint32_t full = full_ + 8 * stage;
    Wait(free_ + 8 * stage, use.parity ^ 1);
    if (ElectLane()) ArriveExpectingBytes(full, Shape::kKeyBytes);
    uint32_t to = stages_ + stage * Shape::kKeyBytes;
    for (int32_t page = 0; page < num_pages_; ++page) {
      const int32_t block = __shfl_sync(0xffffffff, blocks, page);
      if (ElectLane()) {
#pragma unroll
        for (int columns = 0; columns < Shape::kKeyBlocks; ++columns) {
          CopyBox(to + columns * Shape::kTileKeys * Shape::kLineBytes, map_, columns * 64, 0,
                  kv_head, block, full);
        }
      }
      to += Shape::kLineBytes << p_.block_shift;
    }
  }

 private:
  const TiledParams& p_;
  const CUtensorMap& map_;
  const uint32_t stages_;
  const uint32_t full_;
  const uint32_t free_;
  const int lane_;
  const int32_t num_pages_;  // of a tile
  uint32_t num_tiles_ = 0;   // loaded so far, of all items
};

// K, and V that is yet to be transposed, by one warp.
template <typename Shape>
class PairLoader {
 public:
  __device__ PairLoader(const HopperParams& p, const HopperShared<Shape>& shared)
      : keys_(p.tiled, p.k_map, shared.keys(0), shared.keys_full(0), shared.keys_free(0)),
        values_(p.tiled, p.v_map, shared.raw_values(), shared.raw_values_full(0),
                shared.raw_values_free(0)) {
    static_assert(Shape::kRawStages == Shape::kStages && Shape::kRawBytes == Shape::kKeyBytes);
  }

  __device__ void LoadItem(const TileItem& item) {
    if (item.key_end <= item.key_begin) return;
    const int32_t last_tile = (item.key_end - 1) / Shape::kTileKeys;
    int32_t tile = item.key_begin / Shape::kTileKeys;
    int32_t blocks = keys_.BlocksOf(item, tile);
    for (; tile <= last_tile; ++tile) {
      const int32_t next_blocks = keys_.BlocksOf(item, tile + 1);
      keys_.LoadTile(item.kv_head, blocks);
      values_.LoadTile(item.kv_head, blocks);
      blocks = next_blocks;
    }
  }

 private:
  CacheLoader<Shape> keys_;
  CacheLoader<Shape> values_;
};

// K, or both, by the first warp.
template <typename Shape>
__device__ auto MakeKeysLoader(const HopperParams& p, const HopperShared<Shape>& shared) {
  if constexpr (Shape::kHasFloat8Gemms) {
    return PairLoader<Shape>(p, shared);
  } else if constexpr (Shape::kIsFloat8) {
    return ConvertingLoader<Shape, true>(p.tiled, p.k_map, shared);
  } else {
    return CacheLoader<Shape>(p.tiled, p.k_map, shared.keys(0), shared.keys_full(0),
                              shared.keys_free(0));
  }
}
template <typename Shape>
__device__ auto MakeValuesLoader(const HopperParams& p, const HopperShared<Shape>& shared) {
  if constexpr (Shape::kIsFloat8) {
    return ConvertingLoader<Shape, false>(p.tiled, p.v_map, shared);
  } else {
    return CacheLoader<Shape>(p.tiled, p.v_map, shared.values(0), shared.values_full(0),
                              shared.values_free(0));
  }
}

// The first warp: takes items, tells the others, and loads K.
template <typename Shape>
__device__ void ScheduleAndLoadKeys(const HopperParams& p, const HopperShared<Shape>& shared) {
  auto keys = MakeKeysLoader(p, shared);
  WorkListState* state = p.tiled.work.state;
  const int32_t num_items = state->num_items * p.tiled.num_kv_heads;
  const int lane = threadIdx.x % 32;
  int32_t index = blockIdx.x;
  for (uint32_t n = 0;; ++n) {
    const bool has_item = index < num_items;
    // Beyond the last item this reads whatever lies there, so that both reads are under way
    // together.
    const WorkItem work = p.tiled.work.items[index / p.tiled.num_kv_heads];
    TileItem item = {};
    if (has_item) item = MakeItem(p.tiled, work, index % p.tiled.num_kv_heads);
    const RingUse<2> use(n);
    Wait(shared.item_free(use.stage), use.parity ^ 1);
    if (lane == 0) {
      shared.item(use.stage) = {has_item, item};
      Arrive(shared.item_full(use.stage));
    }
    if (!has_item) break;
    // The number of the item after this one arrives while this one's keys do.
    int32_t next = 0;
    if (lane == 0) next = gridDim.x + atomicAdd(&state->next, 1);
    keys.LoadItem(item);
    index = __shfl_sync(0xffffffff, next, 0);
  }
  if (lane == 0 && atomicAdd(&state->finished, 1) == gridDim.x - 1) {
    state->next = 0;
    state->finished = 0;
  }
}

// The n-th item, as a warp takes it from the first one; false when there are no more.
template <typename Shape>
__device__ bool TakeItem(const HopperShared<Shape>& shared, uint32_t n, TileItem& item) {
  const RingUse<2> use(n);
  Wait(shared.item_full(use.stage), use.parity);
  if (!shared.item(use.stage).has_item) return false;
  item = shared.item(use.stage).item;
  Arrive(shared.item_free(use.stage));
  return true;
}

// The second warp.
template <typename Shape>
__device__ void LoadValues(const HopperParams& p, const HopperShared<Shape>& shared) {
  TileItem item;
  if constexpr (Shape::kHasFloat8Gemms) {
    ValuesTransposer<Shape> values(shared, 0);
    for (uint32_t n = 0; TakeItem(shared, n, item); ++n) values.TransposeItem(item);
  } else {
    auto values = MakeValuesLoader(p, shared);
    for (uint32_t n = 0; TakeItem(shared, n, item); ++n) values.LoadItem(item);
  }
}

// The work on K and V that the warps that load queries do between items.
template <typename Shape>
class QueryWarpsConverter {
 public:
  __device__ QueryWarpsConverter(const TiledParams& p, const HopperShared<Shape>& shared)
      : keys_(p, shared), values_(p, shared) {}
  __device__ void ConvertItem(const TileItem& item) {
    if constexpr (Shape::kIsFloat8)
      threadIdx.x < 96 ? keys_.ConvertItem(item) : values_.ConvertItem(item);
  }

 private:
  TileConverter<Shape, true, 1> keys_;
  TileConverter<Shape, false, 1> values_;
};
template <typename Shape>
requires(Shape::kHasFloat8Gemms) class QueryWarpsConverter<Shape> {
 public:
  __device__ QueryWarpsConverter(const TiledParams&, const HopperShared<Shape>& shared)
      : values_(shared, static_cast<int>(threadIdx.x / 32) - 1) {}
  __device__ void ConvertItem(const TileItem& item) { values_.TransposeItem(item); }

 private:
  ValuesTransposer<Shape> values_;
};

// Where a row's query lies, and that of every step-th row after it, without a division for each.
class RowPlace {
 public:
  __device__ RowPlace(const TileItem& item, int32_t row, int32_t step)
      : item_(item),
        query_(item.QueryOf(row)),
        in_group_((item.first_row + row) % item.group_size),
        query_step_(step / item.group_size),
        group_step_(step % item.group_size) {}

  __device__ int64_t token() const { return item_.first_token + query_; }
  __device__ int32_t head() const { return item_.kv_head * item_.group_size + in_group_; }
  __device__ void Advance() {
    query_ += query_step_;
    in_group_ += group_step_;
    if (in_group_ < item_.group_size) return;
    in_group_ -= item_.group_size;
    ++query_;
  }

 private:
  const TileItem& item_;
  int32_t query_;
  int32_t in_group_;  // which head
  const int32_t query_step_, group_step_;
};

// Sends for an item's queries, eight elements at a time. Rows that the tile does not have and
// columns beyond the head are zeros.
template <typename Shape>
__device__ void CopyQueries(const TiledParams& p, const TileItem& item, uint32_t queries) {
  constexpr int kLoaders = 32 * Shape::kQueryWarps;
  constexpr int kRowPieces = Shape::kHeadDim / 8;
  static_assert(kLoaders % kRowPieces == 0);  // a thread copies the same piece of every row
  const int first_row = static_cast<int>(threadIdx.x - 64) / kRowPieces;
  const int piece = static_cast<int>(threadIdx.x) % kRowPieces;
  const bool has_column = piece * 8 < p.head_dim;
  const auto* q = static_cast<const uint16_t*>(p.q) + (has_column ? piece * 8 : 0);
  queries += piece / 8 * Shape::kTileRows * Shape::kLineBytes;
  RowPlace place(item, first_row, kLoaders / kRowPieces);
  // With 8 bits the loading warps have no registers for more at once.
#pragma unroll(Shape::kIsFloat8 ? 2 : 4)
  for (int row = first_row; row < Shape::kTileRows; row += kLoaders / kRowPieces) {
    const bool has_row = row < item.num_rows;
    const int64_t at = place.token() * p.q_row_stride + place.head() * p.head_dim;
    CopyAsync16(queries + Shape::Swizzle(row, piece % 8), has_row ? q + at : q,
                has_row && has_column);
    place.Advance();
  }
  CommitCopies();
}

// The other warps.
template <typename Shape>
__device__ void LoadQueries(const TiledParams& p, const HopperShared<Shape>& shared) {
  QueryWarpsConverter<Shape> converter(p, shared);
  TileItem item;
  for (uint32_t n = 0; TakeItem(shared, n, item); ++n) {
    const RingUse<Shape::kQueryStages> use(n);
    Wait(shared.queries_free(use.stage), use.parity ^ 1);
    CopyQueries<Shape>(p, item, shared.queries(use.stage));
    WaitForCopies<0>();
    FenceSharedWrites();
    Arrive(shared.queries_full(use.stage));
    converter.ConvertItem(item);
  }
}

}  // namespace quire::cuda
