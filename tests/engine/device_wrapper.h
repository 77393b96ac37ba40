// DeviceWrapper: a Device that hands everything on to another; tests override what they change.
#pragma once

#include <memory>

#include "kernels/device.h"

namespace quire::testing {

class DeviceWrapper : public Device {
 public:
  explicit DeviceWrapper(Device& device) : device_(device) {}

  const DeviceInfo& info() const override { return device_.info(); }
  absl::StatusOr<MemoryInfo> Memory() const override { return device_.Memory(); }
  absl::StatusOr<DeviceBuffer> Allocate(int64_t size_bytes) override {
    return device_.Allocate(size_bytes);
  }
  absl::StatusOr<std::unique_ptr<AddressRange>> ReserveAddresses(int64_t size_bytes) override {
    return device_.ReserveAddresses(size_bytes);
  }
  absl::StatusOr<DeviceBuffer> AllocatePinned(int64_t size_bytes) override {
    return device_.AllocatePinned(size_bytes);
  }
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override { return device_.CreateStream(); }
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent(bool timed) override {
    return device_.CreateEvent(timed);
  }

 private:
  Device& device_;
};

}  // namespace quire::testing
