// KvSpec: what a layer keeps of each token. KvLayout: how layers share the pool of blocks. Plain
// values; every geometry of caches and attention follows from them.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "kernels/base/dtype.h"

namespace quire {

struct KvSpec {
  int64_t sliding_window = 0;  // tokens that a query sees, itself included; 0 = all
  int32_t num_kv_heads = 0;
  int32_t k_head_dim = 0;  // elements of one head's key
  int32_t v_head_dim = 0;  // and of its value
  DType dtype = DType::kBF16;

  int64_t BytesPerToken() const;  // K and V, in one layer

  friend auto operator<=>(const KvSpec&, const KvSpec&) = default;
};

// Layers that keep alike and share block tables.
struct KvLayerGroup {
  KvSpec spec;
  std::vector<int> layers;  // model layer indices, in order
};

// Groups are of equal size, or padded to it, and a block has room for any of them, so that any
// block id serves any group.
struct KvLayout {
  std::vector<KvLayerGroup> groups;
  int32_t block_size = 16;  // tokens

  int64_t NumLayersPerGroup() const;   // of the largest group
  int64_t BlockBytesPerLayer() const;  // K and V of one block in one layer, of the largest spec
  int64_t BlockBytes() const;          // in all layers of one group
  int64_t NumBlocksIn(int64_t bytes) const { return bytes / BlockBytes(); }
  std::vector<int> GroupOfLayers() const;  // [num_layers] index into groups
};

// Sorts layers into groups by their specs: specs[i] is layer i's. The group size is the smallest
// count of layers that share a spec; a remainder makes a last, padded group.
std::vector<KvLayerGroup> GroupLayers(const std::vector<KvSpec>& specs);

}  // namespace quire
