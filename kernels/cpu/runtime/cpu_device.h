// CpuDevice: host memory, streams and events behind the Device door, and the thread pool that the
// streams' tasks compute on. Memory is mapped lazily (zero pages), large blocks on huge pages, and
// counted against what was free when the device was opened. Used by one thread; memory may be
// freed on any.
#pragma once

#include <atomic>
#include <memory>

#include "kernels/cpu/runtime/isa.h"
#include "kernels/cpu/runtime/thread_pool.h"
#include "kernels/device.h"

namespace quire::cpu {

class CpuDevice : public Device {
 public:
  // `isa` is only what info().name says; the kernels get it from CpuOps.
  CpuDevice(int num_threads, Isa isa);

  const DeviceInfo& info() const override { return info_; }
  absl::StatusOr<MemoryInfo> Memory() const override;
  absl::StatusOr<DeviceBuffer> Allocate(int64_t size_bytes) override;
  absl::StatusOr<std::unique_ptr<AddressRange>> ReserveAddresses(int64_t size_bytes) override;
  absl::StatusOr<DeviceBuffer> AllocatePinned(int64_t size_bytes) override;
  absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override;
  absl::StatusOr<std::unique_ptr<Event>> CreateEvent(bool timed) override;

  // The first size_bytes of a buffer of this device; the pages behind them are free.
  DeviceBuffer Shrink(DeviceBuffer buffer, int64_t size_bytes);

  ThreadPool& pool() { return pool_; }

 private:
  class Range;

  // The buffer of `size_bytes` whose pages begin at `data`.
  DeviceBuffer Own(void* data, int64_t size_bytes) const;

  DeviceInfo info_;
  ThreadPool pool_;
  const int64_t free_bytes_at_open_;
  // Outlives the device where a buffer does.
  std::shared_ptr<std::atomic<int64_t>> allocated_bytes_;
};

}  // namespace quire::cpu
