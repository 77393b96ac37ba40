// Plans of attention where each phase may take a path of its own. Engine thread.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/attention.h"

namespace quire {

// Which path computes what; often one for both.
struct AttentionPaths {
  AttentionBackend* prefill = nullptr;
  AttentionBackend* decode = nullptr;
};

// One plan per layer group, over both phases of a step.
absl::StatusOr<std::vector<std::unique_ptr<AttentionPlan>>> CreatePhasedPlans(
    const AttentionPaths& paths, absl::Span<const AttentionGeometry> geometries,
    const AttentionLimits& limits);

}  // namespace quire
