// KvArena: the device memory of the paged KV cache, in planes (kv_layout.h) of blocks that all
// groups share. For each of its layers a block has the keys [num_kv_heads, block_size, k_head_dim]
// and then, except for KvKind::kLatent, the values [num_kv_heads, block_size, v_head_dim] (HND: the
// part of a block that one KV head reads is contiguous, which the CPU's attention reads faster than
// NHD). Addresses are fixed first. They get their memory last, when it is known how much is left,
// before serving. Engine thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "kernels/op_args.h"
#include "kvcache/kv_layout.h"

namespace quire {

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
  const KvCacheView& LayerView(int layer) const;
  // The index of a layer's group in layout().groups.
  int GroupOf(int layer) const;
  const KvLayout& layout() const { return layout_; }
  int64_t max_num_blocks() const { return max_num_blocks_; }
  int64_t num_blocks() const { return num_blocks_; }  // with memory
  int64_t size_bytes() const { return size_bytes_; }  // of memory

 private:
  void MakeViews();

  KvLayout layout_;
  int64_t map_granularity_bytes_ = 0;
  int64_t max_num_blocks_ = 0;
  int64_t num_blocks_ = 0;
  int64_t size_bytes_ = 0;
  int64_t plane_stride_bytes_ = 0;
  std::unique_ptr<AddressRange> addresses_;  // NumPlanes times plane_stride_bytes_
  std::vector<int> group_of_layer_;          // [num_layers]
  std::vector<KvCacheView> views_;           // [num_layers]
};

}  // namespace quire
