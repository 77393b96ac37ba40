#include "kvcache/kv_layout.h"

#include <algorithm>
#include <map>

#include "kernels/base/check.h"

namespace quire {

int64_t KvSpec::BytesPerToken() const {
  return int64_t{num_kv_heads} * (k_head_dim + v_head_dim) * DTypeBytes(dtype);
}

int64_t KvLayout::NumLayersPerGroup() const {
  size_t most = 0;
  for (const KvLayerGroup& group : groups) most = std::max(most, group.layers.size());
  return static_cast<int64_t>(most);
}

int64_t KvLayout::BlockBytesPerLayer() const {
  int64_t most = 0;
  for (const KvLayerGroup& group : groups) most = std::max(most, group.spec.BytesPerToken());
  return most * block_size;
}

int64_t KvLayout::BlockBytes() const { return BlockBytesPerLayer() * NumLayersPerGroup(); }

std::vector<int> KvLayout::GroupOfLayers() const {
  std::vector<int> group_of_layer;
  for (size_t g = 0; g < groups.size(); ++g) {
    for (const int layer : groups[g].layers) {
      const auto index = static_cast<size_t>(layer);
      if (index >= group_of_layer.size()) group_of_layer.resize(index + 1, -1);
      CHECK_EQ(group_of_layer[index], -1) << "layer " << layer << " is in two groups";
      group_of_layer[index] = static_cast<int>(g);
    }
  }
  return group_of_layer;
}

std::vector<KvLayerGroup> GroupLayers(const std::vector<KvSpec>& specs) {
  std::map<KvSpec, std::vector<int>> layers_by_spec;
  for (size_t layer = 0; layer < specs.size(); ++layer) {
    CHECK_GE(specs[layer].sliding_window, 0);
    layers_by_spec[specs[layer]].push_back(static_cast<int>(layer));
  }
  size_t group_size = specs.size();
  for (const auto& [spec, layers] : layers_by_spec)
    group_size = std::min(group_size, layers.size());
  std::vector<KvLayerGroup> groups;
  for (const auto& [spec, layers] : layers_by_spec) {
    for (size_t begin = 0; begin < layers.size(); begin += group_size) {
      const size_t end = std::min(begin + group_size, layers.size());
      groups.push_back({spec, {layers.begin() + begin, layers.begin() + end}});
    }
  }
  return groups;
}

}  // namespace quire
