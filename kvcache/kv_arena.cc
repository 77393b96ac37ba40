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

absl::StatusOr<KvArena> KvArena::Allocate(Device& device, const KvLayout& layout,
                                          int64_t num_blocks) {
  CHECK_GT(num_blocks, 0);
  CHECK_GT(layout.BlockBytes(), 0);
  KvArena arena;
  arena.layout_ = layout;
  arena.num_blocks_ = num_blocks;
  arena.index_in_group_ = IndexInGroup(layout);
  absl::StatusOr<DeviceBuffer> memory = device.Allocate(num_blocks * layout.BlockBytes());
  if (!memory.ok()) {
    return absl::Status(
        memory.status().code(),
        absl::StrCat("no room for ", num_blocks, " KV cache blocks of ", layout.BlockBytes(),
                     " bytes (", memory.status().message(),
                     "); lower --gpu-memory-utilization, --max-model-len or --max-num-seqs"));
  }
  arena.memory_ = *std::move(memory);
  return arena;
}

KvCacheView KvArena::LayerView(int layer) const {
  CHECK(layer >= 0 && layer < static_cast<int>(index_in_group_.size())) << "layer " << layer;
  const int index = index_in_group_[layer];
  CHECK_GE(index, 0) << "layer " << layer << " is in no group";
  const int64_t head_stride = int64_t{layout_.block_size} * layout_.head_dim;
  const int64_t plane = layout_.num_kv_heads * head_stride;  // K or V of one block
  char* base = memory_.as<char>() + index * num_blocks_ * layout_.BlockBytesPerLayer();
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
