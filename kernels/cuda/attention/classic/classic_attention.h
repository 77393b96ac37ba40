// The attention that the product's documents begin with, the first PagedAttention kernels, for
// comparison with the paths: tests and `quire-bench kernels` make plans of it here, and no
// deployment can. The engine's thread.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/attention.h"

namespace quire::cuda {

// A plan for decodes of one token with a cache of its own layout. A run copies the pages of its
// batch there first, but only the first run after PlanStep: runs that follow see what was copied
// then. INVALID_ARGUMENT, naming the field, for what it does not compute: a cache of other than 16
// bits, heads of other than 64, 128 or 256 elements, a window, a cap, sinks. The device must
// outlive the plan.
absl::StatusOr<std::unique_ptr<AttentionPlan>> CreateClassicPlan(Device& device,
                                                                 const AttentionGeometry& geometry,
                                                                 const AttentionLimits& limits);

}  // namespace quire::cuda
