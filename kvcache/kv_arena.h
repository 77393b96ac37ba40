// KvLayout: geometry and slot arithmetic of the paged KV cache. KvArena: the device memory behind
// it. Layers are arranged in groups of equal size and equal block bytes, so that any block id
// serves any group; layer i of every group shares one tensor [num_blocks, 2, num_kv_heads,
// block_size, head_dim] (HND: what one KV head reads of a block is contiguous, which the CPU's
// attention reads 1.2 to 1.7 times as fast as NHD). Addresses are fixed first and get their memory
// last, when it is known how much is left; before serving; engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "kernels/op_args.h"

namespace quire {

struct KvLayerGroup {
  int64_t sliding_window = 0;  // 0 = all tokens are visible
  std::vector<int> layers;     // model layer indices, in order; equally many in every group
};

struct KvLayout {
  std::vector<KvLayerGroup> groups;
  int32_t num_kv_heads = 0;
  int32_t head_dim = 0;
  int32_t block_size = 16;  // tokens
  DType dtype = DType::kBF16;

  int64_t BlockBytesPerLayer() const;  // K and V of one block in one layer
  int64_t BlockBytes() const;          // in all layers of one group
  int64_t NumBlocksIn(int64_t bytes) const { return bytes / BlockBytes(); }
};

// Sorts layers into groups of equal size by window: windows[i] is layer i's (0 = full). The group
// size is the smallest count of layers that share a window; a remainder makes a last, padded group.
std::vector<KvLayerGroup> GroupLayersByWindow(const std::vector<int64_t>& windows);

class KvArena {
 public:
  // Addresses for up to max_num_blocks blocks, with no memory behind them yet.
  static absl::StatusOr<KvArena> Reserve(Device& device, const KvLayout& layout,
                                         int64_t max_num_blocks);
  // Puts memory behind the first num_blocks blocks of every layer; once. RESOURCE_EXHAUSTED when
  // the device has too little.
  absl::Status Map(int64_t num_blocks);
  // Both for the same number of blocks.
  static absl::StatusOr<KvArena> Allocate(Device& device, const KvLayout& layout,
                                          int64_t num_blocks);

  // K and V of one layer, all blocks.
  KvCacheView LayerView(int layer) const;
  const KvLayout& layout() const { return layout_; }
  int64_t max_num_blocks() const { return max_num_blocks_; }
  int64_t num_blocks() const { return num_blocks_; }  // with memory
  int64_t size_bytes() const { return size_bytes_; }  // of memory

 private:
  KvLayout layout_;
  int64_t map_granularity_bytes_ = 0;
  int64_t max_num_blocks_ = 0;
  int64_t num_blocks_ = 0;
  int64_t size_bytes_ = 0;
  int64_t layer_stride_bytes_ = 0;
  std::unique_ptr<AddressRange> addresses_;  // layers_per_group times layer_stride_bytes_
  std::vector<int> index_in_group_;          // [num_layers]
};

}  // namespace quire
