// KvSpec: what a layer keeps of each token. KvLayout: how layers share the pool of blocks. Plain
// values; every geometry of caches and attention follows from them.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "kernels/base/dtype.h"

namespace quire {

// What a layer keeps of a token in its blocks. (What a layer keeps of a sequence is a StateSpec,
// state_arena.h.)
enum class KvKind : uint8_t {
  kPaged,   // a key and a value of each KV head
  kLatent,  // one vector of each KV head, the key, whose first v_head_dim elements are the value
};

struct KvSpec {
  int64_t sliding_window = 0;  // tokens that a query sees, itself included; 0 = all
  int32_t num_kv_heads = 0;
  int32_t k_head_dim = 0;  // elements of one head's key
  int32_t v_head_dim = 0;  // and of its value
  DType dtype = DType::kBF16;
  KvKind kind = KvKind::kPaged;

  int64_t BytesPerToken() const;  // in one layer

  friend auto operator<=>(const KvSpec&, const KvSpec&) = default;
};

// Layers that keep alike and share block tables.
struct KvLayerGroup {
  KvSpec spec;
  std::vector<int> layers;  // model layer indices, in order
};

// Any block id serves any group, so a block has room for the largest. The pool is cut into planes:
// a block has equally many bytes in each, which hold one layer of the largest spec, or as many
// layers of a smaller one as fit.
struct KvLayout {
  std::vector<KvLayerGroup> groups;
  int32_t block_size = 16;  // tokens

  int64_t BlockBytesPerPlane() const;  // K and V of one block in one layer of the largest spec
  int64_t LayersPerPlane(const KvSpec& spec) const;
  int64_t NumPlanes() const;   // as many as the largest group takes
  int64_t BlockBytes() const;  // in all planes
  int64_t NumBlocksIn(int64_t bytes) const { return bytes / BlockBytes(); }
  std::vector<int> GroupOfLayers() const;  // [num_layers] index into groups; -1: in none
};

// Sorts layers into groups by their specs: specs[i] belongs to layer i; a layer that keeps nothing
// is in no group. The spec whose layers take the fewest bytes in all decides how many planes a
// group fills, unless that would make very many groups. The remaining layers make a last, padded
// group.
std::vector<KvLayerGroup> GroupLayers(const std::vector<KvSpec>& specs);

}  // namespace quire
