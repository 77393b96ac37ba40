#include "kvcache/kv_arena.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"

namespace quire {
namespace {

// Padded groups have fewer layers than the arena has tensors.
int64_t LayersPerGroup(const KvLayout& layout) {
  size_t most = 0;
  for (const KvLayerGroup& group : layout.groups) most = std::max(most, group.layers.size());
  return static_cast<int64_t>(most);
}

// [num_layers] each layer's index within its group.
std::vector<int> IndexInGroup(const KvLayout& layout) {
  std::vector<int> index_in_group;
  for (const KvLayerGroup& group : layout.groups) {
    for (size_t i = 0; i < group.layers.size(); ++i) {
      const size_t layer = group.layers[i];
      if (layer >= index_in_group.size()) index_in_group.resize(layer + 1, -1);
      CHECK_EQ(index_in_group[layer], -1) << "layer " << layer << " is in two groups";
      index_in_group[layer] = static_cast<int>(i);
    }
  }
  return index_in_group;
}

}  // namespace

int64_t KvLayout::BlockBytesPerLayer() const {
  return 2 * int64_t{block_size} * num_kv_heads * head_dim * DTypeBytes(dtype);
}

int64_t KvLayout::BlockBytes() const { return BlockBytesPerLayer() * LayersPerGroup(*this); }

std::vector<KvLayerGroup> GroupLayersByWindow(const std::vector<int64_t>& windows) {
  std::map<int64_t, std::vector<int>> layers_by_window;
  for (size_t layer = 0; layer < windows.size(); ++layer) {
    CHECK_GE(windows[layer], 0);
    layers_by_window[windows[layer]].push_back(static_cast<int>(layer));
  }
  size_t group_size = windows.size();
  for (const auto& [window, layers] : layers_by_window) {
    group_size = std::min(group_size, layers.size());
  }
  std::vector<KvLayerGroup> groups;
  for (const auto& [window, layers] : layers_by_window) {
    for (size_t begin = 0; begin < layers.size(); begin += group_size) {
      const size_t end = std::min(begin + group_size, layers.size());
      groups.push_back({window, {layers.begin() + begin, layers.begin() + end}});
    }
  }
  return groups;
}

absl::StatusOr<KvArena> KvArena::Reserve(Device& device, const KvLayout& layout,
                                         int64_t max_num_blocks) {
  CHECK_GT(max_num_blocks, 0);
  CHECK_GT(layout.BlockBytes(), 0);
  KvArena arena;
  arena.layout_ = layout;
  arena.map_granularity_bytes_ = device.info().map_granularity_bytes;
  arena.max_num_blocks_ = max_num_blocks;
  arena.index_in_group_ = IndexInGroup(layout);
  arena.layer_stride_bytes_ =
      RoundUp(max_num_blocks * layout.BlockBytesPerLayer(), arena.map_granularity_bytes_);
  ASSIGN_OR_RETURN(arena.addresses_,
                   device.ReserveAddresses(LayersPerGroup(layout) * arena.layer_stride_bytes_));
  return arena;
}

absl::Status KvArena::Map(int64_t num_blocks) {
  CHECK(num_blocks > 0 && num_blocks <= max_num_blocks_) << num_blocks;
  CHECK_EQ(num_blocks_, 0) << "mapped twice";
  const int64_t layer_bytes =
      RoundUp(num_blocks * layout_.BlockBytesPerLayer(), map_granularity_bytes_);
  for (int64_t i = 0; i < LayersPerGroup(layout_); ++i) {
    const absl::Status status = addresses_->Map(i * layer_stride_bytes_, layer_bytes);
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("no room for ", num_blocks, " KV cache blocks of ",
                                       layout_.BlockBytes(), " bytes (", status.message(), ")"));
    }
    size_bytes_ += layer_bytes;
  }
  num_blocks_ = num_blocks;
  return absl::OkStatus();
}

absl::StatusOr<KvArena> KvArena::Allocate(Device& device, const KvLayout& layout,
                                          int64_t num_blocks) {
  ASSIGN_OR_RETURN(KvArena arena, Reserve(device, layout, num_blocks));
  RETURN_IF_ERROR(arena.Map(num_blocks));
  return arena;
}

KvCacheView KvArena::LayerView(int layer) const {
  CHECK(layer >= 0 && layer < static_cast<int>(index_in_group_.size())) << "layer " << layer;
  const int index = index_in_group_[layer];
  CHECK_GE(index, 0) << "layer " << layer << " is in no group";
  const int64_t head_stride = int64_t{layout_.block_size} * layout_.head_dim;
  const int64_t plane = layout_.num_kv_heads * head_stride;  // K or V of one block
  char* base = static_cast<char*>(addresses_->data()) + index * layer_stride_bytes_;
  return {.k = base,
          .v = base + plane * DTypeBytes(layout_.dtype),
          .dtype = layout_.dtype,
          .block_stride = 2 * plane,
          .token_stride = layout_.head_dim,
          .head_stride = head_stride,
          .block_size = layout_.block_size,
          .num_kv_heads = layout_.num_kv_heads,
          .head_dim = layout_.head_dim};
}

}  // namespace quire
