#include "kvcache/state_arena.h"

#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "kernels/base/types.h"

namespace quire {
namespace {

constexpr int64_t kAlignment = 256;  // bytes, of each part of a state

}  // namespace

int64_t StateSpec::size_bytes() const {
  return RoundUp(conv_bytes, kAlignment) + RoundUp(recurrent_bytes, kAlignment);
}

int64_t BytesPerSlot(const StateLayout& layout) {
  int64_t bytes = 0;
  for (const auto& [layer, spec] : layout) bytes += spec.size_bytes();
  return bytes;
}

absl::StatusOr<StateArena> StateArena::Allocate(Device& device, const StateLayout& layout,
                                                int64_t num_slots) {
  StateArena arena;
  if (layout.empty()) return arena;
  CHECK_GT(num_slots, 0);
  arena.num_slots_ = num_slots;
  ASSIGN_OR_RETURN(arena.memory_, device.Allocate(num_slots * BytesPerSlot(layout)));
  char* plane = arena.memory_.as<char>();
  for (const auto& [layer, spec] : layout) {
    arena.views_[layer] = {.conv = plane,
                           .recurrent = plane + RoundUp(spec.conv_bytes, kAlignment),
                           .conv_stride_bytes = spec.size_bytes(),
                           .recurrent_stride_bytes = spec.size_bytes(),
                           .dtype = spec.dtype};
    plane += num_slots * spec.size_bytes();
  }
  return arena;
}

const StateView& StateArena::LayerView(int layer) const {
  const auto view = views_.find(layer);
  CHECK(view != views_.end()) << "layer " << layer << " keeps no state";
  return view->second;
}

}  // namespace quire
