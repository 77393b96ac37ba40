// ClassicAttention: the attention that the product's documents begin with, to compare the other
// paths with: the first PagedAttention kernels. Decodes of one token, 16-bit caches, no window, cap
// or sinks. Tests and benchmarks ask for it; no deployment selects it. The engine's thread.
#pragma once

#include <memory>
#include <vector>

#include "kernels/attention.h"

namespace quire::cuda {

class ClassicAttention : public AttentionBackend {
 public:
  // The device must outlive this and its plans.
  explicit ClassicAttention(Device& device);

  const AttentionCapabilities& capabilities() const override { return capabilities_; }
  // A plan has a cache of its own layout. A run copies the pages of its batch there first, but only
  // the first run after PlanStep: runs that follow see what was copied then.
  absl::StatusOr<std::vector<std::unique_ptr<AttentionPlan>>> CreatePlans(
      absl::Span<const AttentionGeometry> geometries, const AttentionLimits& limits) override;

 private:
  Device& device_;
  AttentionCapabilities capabilities_;
};

}  // namespace quire::cuda
