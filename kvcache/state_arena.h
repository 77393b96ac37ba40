// StateArena: the device memory of recurrent states, which layers keep of each sequence instead of
// keys and values of each token. A slot has the states of all such layers of one sequence; the
// states of a layer are one behind the other, one for each slot. Before serving; engine thread.
#pragma once

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "kernels/gated_delta.h"

namespace quire {

// Snapshots are taken at multiples of this many tokens, where chunks of prompts end on a GPU.
inline constexpr int32_t kSnapshotGrid = 64;

// What a layer keeps of a sequence (StateView).
struct StateSpec {
  int64_t conv_bytes = 0;
  int64_t recurrent_bytes = 0;
  DType dtype = DType::kF32;  // of the recurrent state

  int64_t size_bytes() const;  // as it lies in memory
};

// By the layer's index in the model; those that keep no state are not there.
using StateLayout = std::map<int, StateSpec>;
int64_t BytesPerSlot(const StateLayout& layout);

class StateArena {
 public:
  // The arena of a model without states.
  StateArena() = default;
  // Slots hold anything at first. RESOURCE_EXHAUSTED when the device has too little memory.
  static absl::StatusOr<StateArena> Allocate(Device& device, const StateLayout& layout,
                                             int64_t num_slots);

  // The states of one layer, which keeps some.
  const StateView& LayerView(int layer) const;
  int64_t num_slots() const { return num_slots_; }
  int64_t size_bytes() const { return memory_.size_bytes(); }

 private:
  int64_t num_slots_ = 0;
  DeviceBuffer memory_;
  std::map<int, StateView> views_;
};

}  // namespace quire
