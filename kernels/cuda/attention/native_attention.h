// NativeAttention: the native attention path on a GPU (FlashInfer's contract). PlanStep makes the
// CSR page table and balanced work lists on the device; Run launches persistent CTAs that take
// items from the lists, decode tiles and prefill tiles apart. Both only enqueue kernels, with
// launch shapes that depend only on the numbers of sequences, decodes and tokens, so both can be
// captured. Used by the engine's thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/attention.h"

namespace quire::cuda {

// On Hopper: the kernels made for it, or, in builds with tests, those of devices before it.
enum class PrefillKernels : uint8_t { kBest, kPortable };

class NativeAttention : public AttentionBackend {
 public:
  // The device must outlive this and its plans.
  explicit NativeAttention(Device& device, PrefillKernels prefill = PrefillKernels::kBest);

  const AttentionCapabilities& capabilities() const override { return capabilities_; }
  absl::StatusOr<std::vector<std::unique_ptr<AttentionPlan>>> CreatePlans(
      absl::Span<const AttentionGeometry> geometries, const AttentionLimits& limits) override;

 private:
  Device& device_;
  const PrefillKernels prefill_;
  AttentionCapabilities capabilities_;
};

}  // namespace quire::cuda
