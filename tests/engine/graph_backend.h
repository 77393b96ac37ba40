// A CPU backend that says captured steps pay, and counts how often one is replayed: the engine's
// graph path, bit for bit comparable with the eager one.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_stream.h"
#include "tests/engine/device_wrapper.h"

namespace quire::testing {

class GraphBackend : public Backend {
 public:
  explicit GraphBackend(std::shared_ptr<std::atomic<int>> num_launches)
      : cpu_(/*num_threads=*/2), device_(cpu_.device(), std::move(num_launches)) {}

  Device& device() override { return device_; }
  Ops& ops() override { return cpu_.ops(); }
  AttentionBackend* attention(AttentionPath path) override { return cpu_.attention(path); }

 private:
  class CountingStream : public cpu::CpuStream {
   public:
    explicit CountingStream(std::shared_ptr<std::atomic<int>> num_launches)
        : num_launches_(std::move(num_launches)) {}
    void Launch(const ExecGraph& graph) override {
      ++*num_launches_;
      CpuStream::Launch(graph);
    }

   private:
    std::shared_ptr<std::atomic<int>> num_launches_;
  };

  class GraphDevice : public DeviceWrapper {
   public:
    GraphDevice(Device& device, std::shared_ptr<std::atomic<int>> num_launches)
        : DeviceWrapper(device), info_(device.info()), num_launches_(std::move(num_launches)) {
      info_.use_graphs = true;
    }
    const DeviceInfo& info() const override { return info_; }
    absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override {
      return std::make_unique<CountingStream>(num_launches_);
    }

   private:
    DeviceInfo info_;
    std::shared_ptr<std::atomic<int>> num_launches_;
  };

  cpu::CpuBackend cpu_;
  GraphDevice device_;
};

}  // namespace quire::testing
