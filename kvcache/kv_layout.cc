#include "kvcache/kv_layout.h"

#include <algorithm>
#include <map>

#include "kernels/base/check.h"
#include "kernels/base/types.h"

namespace quire {
namespace {

// Each group costs a plan and its share of block tables in every step.
constexpr int64_t kMaxGroups = 12;

// As many as the spec with the fewest bytes takes, which then wastes nothing; more if there would
// be too many groups.
int64_t ChoosePlanes(const std::map<KvSpec, std::vector<int>>& layers_by_spec,
                     int64_t plane_bytes) {
  const auto in_planes = [&](const KvSpec& spec, const std::vector<int>& layers) {
    return CeilDiv(static_cast<int64_t>(layers.size()), plane_bytes / spec.BytesPerToken());
  };
  int64_t num_planes = INT64_MAX;
  for (const auto& [spec, layers] : layers_by_spec) {
    num_planes = std::min(num_planes, in_planes(spec, layers));
  }
  const auto num_groups = static_cast<int64_t>(layers_by_spec.size());
  for (;; ++num_planes) {
    int64_t count = 0;
    for (const auto& [spec, layers] : layers_by_spec) {
      count += CeilDiv(in_planes(spec, layers), num_planes);
    }
    if (count <= std::max(kMaxGroups, num_groups)) return num_planes;
  }
}

}  // namespace

int64_t KvSpec::BytesPerToken() const {
  const int32_t elements = kind == KvKind::kLatent ? k_head_dim : k_head_dim + v_head_dim;
  return int64_t{num_kv_heads} * elements * DTypeBytes(dtype);
}

int64_t KvLayout::BlockBytesPerPlane() const {
  int64_t most = 0;
  for (const KvLayerGroup& group : groups) most = std::max(most, group.spec.BytesPerToken());
  return most * block_size;
}

int64_t KvLayout::LayersPerPlane(const KvSpec& spec) const {
  return BlockBytesPerPlane() / (spec.BytesPerToken() * block_size);
}

int64_t KvLayout::NumPlanes() const {
  int64_t most = 0;
  for (const auto& [spec, layers] : groups) {
    most = std::max(most, CeilDiv(static_cast<int64_t>(layers.size()), LayersPerPlane(spec)));
  }
  return most;
}

int64_t KvLayout::BlockBytes() const { return BlockBytesPerPlane() * NumPlanes(); }

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
  int64_t plane_bytes = 0;  // of a token
  for (size_t layer = 0; layer < specs.size(); ++layer) {
    CHECK_GE(specs[layer].sliding_window, 0);
    if (specs[layer].BytesPerToken() == 0) continue;
    if (specs[layer].kind == KvKind::kLatent)
      CHECK_LE(specs[layer].v_head_dim, specs[layer].k_head_dim);
    layers_by_spec[specs[layer]].push_back(static_cast<int>(layer));
    plane_bytes = std::max(plane_bytes, specs[layer].BytesPerToken());
  }
  const int64_t num_planes = ChoosePlanes(layers_by_spec, plane_bytes);
  std::vector<KvLayerGroup> groups;
  for (const auto& [spec, layers] : layers_by_spec) {
    const auto group_size = static_cast<size_t>(num_planes * (plane_bytes / spec.BytesPerToken()));
    for (size_t begin = 0; begin < layers.size(); begin += group_size) {
      const size_t end = std::min(begin + group_size, layers.size());
      groups.push_back({spec, {layers.begin() + begin, layers.begin() + end}});
    }
  }
  return groups;
}

}  // namespace quire
