// A CPU backend whose n-th allocation, object creation or step fails, whose n-th step hangs, or
// whose logits are no numbers for some sequences: for fault tests.
#pragma once

#include <atomic>
#include <limits>
#include <memory>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/runtime/cpu_stream.h"
#include "tests/engine/device_wrapper.h"

namespace quire::testing {

// Counts down to the failure; shared with the test, which may set it while the engine runs.
struct FaultPlan {
  std::atomic<int> creations_until_failure{-1};  // allocations, streams, events; negative = never
  std::atomic<int> waits_until_failure{-1};      // waits for a step; negative = never
  std::atomic<int> waits_until_hang{-1};         // likewise; lasts until `hanging` is cleared
  std::atomic<bool> hanging{false};
  std::atomic<int> num_creations{0};
  // The logits of rows with this seed have a NaN from this position on; 0: no row's.
  std::atomic<uint64_t> broken_seed{0};
  std::atomic<int64_t> broken_position{0};

  void EndHang() {
    hanging = false;
    hanging.notify_all();
  }
};

class FaultyBackend : public Backend {
 public:
  explicit FaultyBackend(std::shared_ptr<FaultPlan> plan, int num_threads = 2)
      : cpu_(num_threads), ops_(cpu_.ops(), plan), device_(cpu_.device(), plan) {}

  Device& device() override { return device_; }
  Ops& ops() override { return ops_; }
  WeightStore& weight_store() override { return cpu_.weight_store(); }
  AttentionBackend* attention(AttentionPath path) override { return cpu_.attention(path); }

 private:
  class FaultyOps : public Ops {
   public:
    FaultyOps(Ops& ops, std::shared_ptr<FaultPlan> plan) : ops_(ops), plan_(std::move(plan)) {}

   private:
#define QUIRE_OP(name)                                            \
  void Enqueue(Stream& stream, const name##Args& args) override { \
    BreakLogits(stream, args);                                    \
    ops_.name(stream, args);                                      \
  }
    QUIRE_OPS(QUIRE_OP)
#undef QUIRE_OP

    template <typename Args>
    void BreakLogits(Stream&, const Args&) {}
    void BreakLogits(Stream& stream, const SampleArgs& args) {
      cpu::CpuStream::From(stream).Enqueue([args, plan = plan_.get()] {
        if (plan->broken_seed == 0) return;
        for (int64_t i = 0; i < args.logits.dim(0); ++i) {
          const SamplingRow& row = args.rows[i];
          if (row.seed != plan->broken_seed || row.position < plan->broken_position) continue;
          float* logits = args.logits.as<float>() + i * args.logits.row_stride();
          logits[args.logits.dim(1) / 2] = std::numeric_limits<float>::quiet_NaN();
        }
      });
    }

    Ops& ops_;
    std::shared_ptr<FaultPlan> plan_;
  };

  class FaultyEvent : public cpu::CpuEvent {
   public:
    explicit FaultyEvent(std::shared_ptr<FaultPlan> plan) : plan_(std::move(plan)) {}
    absl::Status Wait() override {
      const absl::Status status = CpuEvent::Wait();
      if (plan_->waits_until_hang >= 0 && plan_->waits_until_hang-- == 0) {
        plan_->hanging = true;
        plan_->hanging.notify_all();
        plan_->hanging.wait(true);
      }
      if (plan_->waits_until_failure >= 0 && plan_->waits_until_failure-- == 0) {
        return absl::InternalError("injected device error");
      }
      return status;
    }

   private:
    std::shared_ptr<FaultPlan> plan_;
  };

  class FaultyDevice : public DeviceWrapper {
   public:
    FaultyDevice(Device& device, std::shared_ptr<FaultPlan> plan)
        : DeviceWrapper(device), plan_(std::move(plan)) {}
    absl::StatusOr<DeviceBuffer> Allocate(int64_t size_bytes) override {
      if (Fails()) return Shortage();
      return DeviceWrapper::Allocate(size_bytes);
    }
    absl::StatusOr<std::unique_ptr<AddressRange>> ReserveAddresses(int64_t size_bytes) override {
      if (Fails()) return Shortage();
      return DeviceWrapper::ReserveAddresses(size_bytes);
    }
    absl::StatusOr<DeviceBuffer> AllocatePinned(int64_t size_bytes) override {
      if (Fails()) return Shortage();
      return DeviceWrapper::AllocatePinned(size_bytes);
    }
    absl::StatusOr<std::unique_ptr<Stream>> CreateStream() override {
      if (Fails()) return Shortage();
      return DeviceWrapper::CreateStream();
    }
    absl::StatusOr<std::unique_ptr<Event>> CreateEvent(bool) override {
      if (Fails()) return Shortage();
      return std::make_unique<FaultyEvent>(plan_);
    }

   private:
    bool Fails() {
      ++plan_->num_creations;
      return plan_->creations_until_failure >= 0 && plan_->creations_until_failure-- == 0;
    }
    static absl::Status Shortage() { return absl::ResourceExhaustedError("injected shortage"); }

    std::shared_ptr<FaultPlan> plan_;
  };

  cpu::CpuBackend cpu_;
  FaultyOps ops_;
  FaultyDevice device_;
};

}  // namespace quire::testing
