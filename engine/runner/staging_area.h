// StagingArea: pinned memory of one step, for data that goes to the device ahead of the step's
// metadata. Its pieces lie one behind the other, so that no piece waits for the piece before.
// Engine thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/device.h"

namespace quire {

class StagingArea {
 public:
  absl::Status Allocate(Device& device, int64_t size_bytes);

  // Call it before the first piece of a step, when everything that this area sent before has
  // arrived.
  void Reset() { used_bytes_ = 0; }

  // Copies `values` and enqueues the copy to the same place of `device_area`, which has this area's
  // size. Returns their place on the device. The host waits only if the area is full, for the
  // pieces sent before. CHECKs that `values` fit the whole area.
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
