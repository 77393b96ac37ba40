// StagingArea: pinned memory of one step, for what travels to the device ahead of the step's
// metadata. Pieces lie one behind the other, so that none waits for the one before. Engine thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/device.h"

namespace quire {

class StagingArea {
 public:
  absl::Status Allocate(Device& device, int64_t size_bytes);

  // Before the first piece of a step; what was sent with this area before has arrived.
  void Reset() { used_bytes_ = 0; }

  // Copies `values` and enqueues their way to the same place of `device_area`, which has this
  // area's size; returns where they will be. The host waits only for what a full area sent before.
  // CHECKs that `values` fit the whole area.
  template <typename T>
  const T* Send(Stream& stream, absl::Span<const T> values, const DeviceBuffer& device_area) {
    const auto size_bytes = static_cast<int64_t>(values.size() * sizeof(T));
    return static_cast<const T*>(SendBytes(stream, values.data(), size_bytes, device_area));
  }

 private:
  const void* SendBytes(Stream& stream, const void* data, int64_t size_bytes,
                        const DeviceBuffer& device_area);

  DeviceBuffer pinned_;
  int64_t used_bytes_ = 0;
};

}  // namespace quire
