// The device-neutral door to memory and time: Device, DeviceBuffer, Stream, Event, ExecGraph.
// A stream runs what is enqueued on it in order, asynchronously to the caller, on the CPU backend
// too: there a stream is one thread with a queue of tasks, and a captured graph is a recorded list
// of them. One thread (the engine's) creates and uses these objects. Device memory is allocated
// before serving starts and keeps its address, because captured graphs hold raw pointers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/base/dtype.h"

namespace quire {

enum class DeviceKind : uint8_t { kCpu, kCuda };

struct DeviceInfo {
  DeviceKind kind = DeviceKind::kCpu;
  std::string name;  // "AMD EPYC ... (avx512_bf16)", "NVIDIA H200"
  // What activations and weights may be in.
  std::vector<DType> activation_dtypes;
  int num_threads = 0;                   // CPU: threads that compute
  int sm_version = 0;                    // CUDA: 90 for Hopper
  int num_sms = 0;                       // CUDA
  bool use_graphs = false;               // whether replaying captured decode steps pays here
  int64_t map_granularity_bytes = 4096;  // of AddressRange::Map
};

// The types in which every supported NVIDIA GPU computes.
inline std::vector<DType> GpuActivationDTypes() { return {DType::kF32, DType::kBF16, DType::kF16}; }

struct MemoryInfo {
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;
};

// Owns memory (device or pinned host); frees it when it goes. Movable only.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(void* data, int64_t size_bytes, std::function<void(void*)> free)
      : data_(data), size_bytes_(size_bytes), free_(std::move(free)) {}
  ~DeviceBuffer() { Reset(); }
  DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    if (this == &other) return *this;
    Reset();
    data_ = std::exchange(other.data_, nullptr);
    size_bytes_ = std::exchange(other.size_bytes_, 0);
    free_ = std::exchange(other.free_, nullptr);
    return *this;
  }

  void* data() const { return data_; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  int64_t size_bytes() const { return size_bytes_; }

  // The memory, which is now the caller's to free.
  void* Release() {
    free_ = nullptr;
    size_bytes_ = 0;
    return std::exchange(data_, nullptr);
  }

 private:
  void Reset() {
    if (data_ != nullptr) free_(data_);
    data_ = nullptr;
  }

  void* data_ = nullptr;
  int64_t size_bytes_ = 0;
  std::function<void(void*)> free_;
};

// Addresses on the device that get memory bit by bit: what is captured in graphs may name them
// before it is known how much memory will be left. Gives addresses and memory back when it goes.
class AddressRange {
 public:
  virtual ~AddressRange() = default;
  virtual void* data() const = 0;
  // Puts uninitialised memory behind [offset_bytes, offset_bytes + size_bytes), multiples of the
  // device's map_granularity_bytes that have none yet. RESOURCE_EXHAUSTED when there is too little.
  virtual absl::Status Map(int64_t offset_bytes, int64_t size_bytes) = 0;
};

// A point in a stream. Done() and Wait() may be called from one thread other than the stream's
// user.
class Event {
 public:
  virtual ~Event() = default;
  // True when everything enqueued before the last Record has finished (true before any Record).
  virtual bool Done() const = 0;
  // Blocks until Done; the status is the first device error seen, if any.
  virtual absl::Status Wait() = 0;
  // Device time from the last Record of `earlier` to that of this one. Both are Done, recorded, and
  // were created as timed events of the same device.
  virtual double MicrosecondsSince(const Event& earlier) const = 0;
};

// A captured sequence of operations with fixed addresses; replayed by Stream::Launch.
class ExecGraph {
 public:
  virtual ~ExecGraph() = default;
};

class Stream {
 public:
  virtual ~Stream() = default;

  // Asynchronous copies; host memory must be pinned and stay unchanged until an event after the
  // copy.
  virtual void CopyToDevice(void* device_dst, const void* pinned_src, int64_t bytes) = 0;
  virtual void CopyToHost(void* pinned_dst, const void* device_src, int64_t bytes) = 0;
  virtual void FillZero(void* device_dst, int64_t bytes) = 0;

  // Remembers everything enqueued so far in `event`, which outlives what it remembers.
  virtual void Record(Event& event) = 0;

  // Between BeginCapture and EndCapture, operations are recorded and not run. RESOURCE_EXHAUSTED
  // when there is no memory for the graph: then there is none, and the stream goes on.
  virtual void BeginCapture() = 0;
  virtual absl::StatusOr<std::unique_ptr<ExecGraph>> EndCapture() = 0;
  virtual void Launch(const ExecGraph& graph) = 0;

  // Waits until the stream is empty; the status is the first device error seen, if any.
  virtual absl::Status Synchronize() = 0;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;
  virtual absl::StatusOr<MemoryInfo> Memory() const = 0;

  // Uninitialised memory aligned to 256 bytes. RESOURCE_EXHAUSTED with the size when there is none.
  virtual absl::StatusOr<DeviceBuffer> Allocate(int64_t size_bytes) = 0;
  // `size_bytes` addresses, a multiple of the granularity, with no memory behind them.
  virtual absl::StatusOr<std::unique_ptr<AddressRange>> ReserveAddresses(int64_t size_bytes) = 0;
  // Host memory that copies may use asynchronously; zero-filled, aligned to 64 bytes.
  virtual absl::StatusOr<DeviceBuffer> AllocatePinned(int64_t size_bytes) = 0;

  virtual absl::StatusOr<std::unique_ptr<Stream>> CreateStream() = 0;
  // `timed`: the event can tell MicrosecondsSince another, and costs more to record.
  virtual absl::StatusOr<std::unique_ptr<Event>> CreateEvent(bool timed = false) = 0;
};

}  // namespace quire
