#include "kvcache/kv_arena.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"

namespace quire {

absl::StatusOr<KvArena> KvArena::Reserve(Device& device, const KvLayout& layout,
                                         int64_t max_num_blocks) {
  CHECK_GT(max_num_blocks, 0);
  CHECK_GT(layout.BlockBytes(), 0);
  KvArena arena;
  arena.layout_ = layout;
  arena.map_granularity_bytes_ = device.info().map_granularity_bytes;
  arena.max_num_blocks_ = max_num_blocks;
  arena.group_of_layer_ = layout.GroupOfLayers();
  arena.plane_stride_bytes_ =
      RoundUp(max_num_blocks * layout.BlockBytesPerPlane(), arena.map_granularity_bytes_);
  ASSIGN_OR_RETURN(arena.addresses_,
                   device.ReserveAddresses(layout.NumPlanes() * arena.plane_stride_bytes_));
  arena.MakeViews();
  return arena;
}

void KvArena::MakeViews() {
  views_.resize(group_of_layer_.size());
  for (const auto& [spec, layers] : layout_.groups) {
    const int64_t element_bytes = DTypeBytes(spec.dtype);
    // Heads of which each token has `stride` elements.
    const auto heads = [&](char* data, int32_t head_dim, int32_t stride) {
      return HeadsView{.data = data,
                       .block_stride = layout_.BlockBytesPerPlane() / element_bytes,
                       .token_stride = stride,
                       .head_stride = int64_t{layout_.block_size} * stride,
                       .head_dim = head_dim};
    };
    const int64_t k_bytes =
        int64_t{layout_.block_size} * spec.num_kv_heads * spec.k_head_dim * element_bytes;
    const int64_t layer_bytes = layout_.block_size * spec.BytesPerToken();
    const int64_t layers_per_plane = layout_.LayersPerPlane(spec);
    for (size_t i = 0; i < layers.size(); ++i) {
      const auto index = static_cast<int64_t>(i);
      char* const base = static_cast<char*>(addresses_->data()) +
                         index / layers_per_plane * plane_stride_bytes_ +
                         index % layers_per_plane * layer_bytes;
      const bool is_latent = spec.kind == KvKind::kLatent;
      views_[layers[i]] = {.k = heads(base, spec.k_head_dim, spec.k_head_dim),
                           .v = is_latent ? heads(base, spec.v_head_dim, spec.k_head_dim)
                                          : heads(base + k_bytes, spec.v_head_dim, spec.v_head_dim),
                           .dtype = spec.dtype,
                           .block_size = layout_.block_size,
                           .num_kv_heads = spec.num_kv_heads};
    }
  }
}

absl::Status KvArena::Map(int64_t num_blocks) {
  CHECK(num_blocks > 0 && num_blocks <= max_num_blocks_) << num_blocks;
  CHECK_EQ(num_blocks_, 0) << "mapped twice";
  const int64_t plane_bytes =
      RoundUp(num_blocks * layout_.BlockBytesPerPlane(), map_granularity_bytes_);
  for (int64_t i = 0; i < layout_.NumPlanes(); ++i) {
    const absl::Status status = addresses_->Map(i * plane_stride_bytes_, plane_bytes);
    if (!status.ok()) {
      return absl::Status(status.code(),
                          absl::StrCat("no room for ", num_blocks, " KV cache blocks of ",
                                       layout_.BlockBytes(), " bytes (", status.message(), ")"));
    }
    size_bytes_ += plane_bytes;
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

int KvArena::GroupOf(int layer) const {
  CHECK(layer >= 0 && layer < static_cast<int>(group_of_layer_.size())) << "layer " << layer;
  const int group = group_of_layer_[layer];
  CHECK_GE(group, 0) << "layer " << layer << " is in no group";
  return group;
}

const KvCacheView& KvArena::LayerView(int layer) const {
  (void)GroupOf(layer);  // checks that there is such a layer
  return views_[layer];
}

}  // namespace quire
