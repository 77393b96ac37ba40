#include "engine/runner/staging_area.h"

#include <cstring>

#include "kernels/base/check.h"
#include "kernels/base/status_macros.h"
#include "kernels/base/types.h"

namespace quire {

absl::Status StagingArea::Allocate(Device& device, int64_t size_bytes) {
  ASSIGN_OR_RETURN(pinned_, device.AllocatePinned(size_bytes));
  return absl::OkStatus();
}

const void* StagingArea::SendBytes(Stream& stream, const void* data, int64_t size_bytes,
                                   const DeviceBuffer& device_area) {
  constexpr int64_t kAlignment = 64;
  CHECK_LE(size_bytes, pinned_.size_bytes());
  CHECK_EQ(device_area.size_bytes(), pinned_.size_bytes());
  if (used_bytes_ + size_bytes > pinned_.size_bytes()) {
    stream.Synchronize().IgnoreError();  // the step's event reports the error
    used_bytes_ = 0;
  }
  char* const staged = pinned_.as<char>() + used_bytes_;
  char* const sent = device_area.as<char>() + used_bytes_;
  std::memcpy(staged, data, static_cast<size_t>(size_bytes));
  stream.CopyToDevice(sent, staged, size_bytes);
  used_bytes_ = RoundUp(used_bytes_ + size_bytes, kAlignment);
  return sent;
}

}  // namespace quire
