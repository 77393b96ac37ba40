// CudaDevice: one GPU's memory, streams and events behind the Device door. Used by one thread;
// memory may be freed on any.
#pragma once

#include <memory>

#include "kernels/cuda/runtime/device_errors.h"
#include "kernels/device.h"

namespace quire::cuda {

class CudaDevice : public Device {
 public:
  // UNAVAILABLE, saying what to change, where there is no such device or no kernel for it.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(int device_index);

  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<MemoryInfo> Memory() const override;
  absl::StatusOr<DeviceBuffer> Allocate(int64_t size_bytes) override;
  absl::StatusOr<std::unique_ptr<AddressRange>> ReserveAddresses(int64_t size_bytes) override;
  absl::StatusOr<DeviceBuffer> AllocatePinned(int64_t size_bytes) override;
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override;
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent(bool timed) override;

  int index() const { return index_; }
  // CUDA calls of this thread go to this device from now on; the thread that opens it is bound.
  void BindThread() const;

 private:
  CudaDevice(int index, DeviceInfo info)
      : index_(index), info_(std::move(info)), errors_(std::make_shared<DeviceErrors>()) {}

  const int index_;
  const DeviceInfo info_;
  const std::shared_ptr<DeviceErrors> errors_;
};

}  // namespace quire::cuda
