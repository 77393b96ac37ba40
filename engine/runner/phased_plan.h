// Plans of attention where each phase may take a path of its own, and shared prefixes one apart
// from the rest of their decodes (cascade_plan.h). Engine thread.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/attention.h"
#include "kernels/device.h"

namespace quire {

// Which path computes what; often one for both.
struct AttentionPaths {
  AttentionBackend* prefill = nullptr;
  AttentionBackend* decode = nullptr;
  // Prefixes that decodes share, so many at most, are read once, by `prefix`, whose prompts should
  // be as exact as decodes are; 0: never. Wants geometries that have it (WhyNoCascade).
  AttentionBackend* prefix = nullptr;
  int64_t max_prefix_groups = 0;
};

// One plan per layer group, over both phases of a step.
absl::StatusOr<std::vector<std::unique_ptr<AttentionPlan>>> CreatePhasedPlans(
    Device& device, const AttentionPaths& paths, absl::Span<const AttentionGeometry> geometries,
    const AttentionLimits& limits);

}  // namespace quire
