// Attention plans in which each phase may use its own path, and shared prefixes may use another
// path than the rest of their decodes (cascade_plan.h). Engine thread.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/attention.h"
#include "kernels/device.h"

namespace quire {

// The paths of the two phases; often one path for both.
struct AttentionPaths {
  AttentionBackend* prefill = nullptr;
  AttentionBackend* decode = nullptr;
  // `prefix` reads prefixes that decodes share once for all of them, at most max_prefix_groups of
  // them; 0: never. Its prompts should be as exact as decodes are. Needs geometries that allow it
  // (WhyNoCascade).
  AttentionBackend* prefix = nullptr;
  int64_t max_prefix_groups = 0;
};

// One plan per layer group, over both phases of a step.
absl::StatusOr<std::vector<std::unique_ptr<AttentionPlan>>> CreatePhasedPlans(
    Device& device, const AttentionPaths& paths, absl::Span<const AttentionGeometry> geometries,
    const AttentionLimits& limits);

}  // namespace quire
