// A CPU backend that says captured steps pay, that each graph takes memory, and counts what its
// streams are asked for: the engine's graph path, bit for bit comparable with the eager one.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/runtime/cpu_stream.h"
#include "tests/engine/device_wrapper.h"

namespace quire::testing {

struct StreamCounts {
  std::atomic<int> num_captures = 0;
  std::atomic<int> most_captures = 1'000'000;  // then there is no memory for more
  std::atomic<int> num_replays = 0;
  std::atomic<int> num_waits = 0;  // of the host for a stream
};

class GraphBackend : public Backend {
 public:
  static constexpr int64_t kGraphBytes = int64_t{16} << 20, kMemoryBytes = int64_t{1} << 30;

  explicit GraphBackend(std::shared_ptr<StreamCounts> counts = std::make_shared<StreamCounts>(),
                        GraphSupport graph_support = GraphSupport::kAlways)
      : cpu_(/*num_threads=*/2),
        device_(cpu_.device(), std::move(counts)),
        attention_(*cpu_.attention(AttentionPath::kNative), graph_support) {}

  Device& device() override { return device_; }
  Ops& ops() override { return cpu_.ops(); }
  WeightStore& weight_store() override { return cpu_.weight_store(); }
  AttentionBackend* attention(AttentionPath path) override {
    return path == AttentionPath::kNative ? &attention_ : nullptr;
  }

 private:
  class Attention : public AttentionBackend {
   public:
    Attention(AttentionBackend& attention, GraphSupport graph_support)
        : attention_(attention), capabilities_(attention.capabilities()) {
      capabilities_.graph_support = graph_support;
    }
    const AttentionCapabilities& capabilities() const override { return capabilities_; }
    absl::StatusOr<std::vector<std::unique_ptr<AttentionPlan>>> CreatePlans(
        absl::Span<const AttentionGeometry> geometries, const AttentionLimits& limits) override {
      return attention_.CreatePlans(geometries, limits);
    }

   private:
    AttentionBackend& attention_;
    AttentionCapabilities capabilities_;
  };

  class CountingStream : public cpu::CpuStream {
   public:
    explicit CountingStream(std::shared_ptr<StreamCounts> counts) : counts_(std::move(counts)) {}
    absl::StatusOr<std::unique_ptr<ExecGraph>> EndCapture() override {
      auto graph = CpuStream::EndCapture();
      if (++counts_->num_captures > counts_->most_captures) {
        return absl::ResourceExhaustedError("injected shortage");
      }
      return graph;
    }
    void Launch(const ExecGraph& graph) override {
      ++counts_->num_replays;
      CpuStream::Launch(graph);
    }
    absl::Status Synchronize() override {
      ++counts_->num_waits;
      return CpuStream::Synchronize();
    }

   private:
    std::shared_ptr<StreamCounts> counts_;
  };

  class GraphDevice : public DeviceWrapper {
   public:
    GraphDevice(Device& device, std::shared_ptr<StreamCounts> counts)
        : DeviceWrapper(device), info_(device.info()), counts_(std::move(counts)) {
      info_.use_graphs = true;
    }
    const DeviceInfo& info() const override { return info_; }
    absl::StatusOr<MemoryInfo> Memory() const override {
      return MemoryInfo{.free_bytes = kMemoryBytes - counts_->num_captures * kGraphBytes,
                        .total_bytes = kMemoryBytes};
    }
    absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override {
      return std::make_unique<CountingStream>(counts_);
    }

   private:
    DeviceInfo info_;
    std::shared_ptr<StreamCounts> counts_;
  };

  cpu::CpuBackend cpu_;
  GraphDevice device_;
  Attention attention_;
};

}  // namespace quire::testing
