// Which attention path computes a phase of a deployment's steps. A pure function of the geometries
// and of what the paths can do; a forced choice that cannot work is an error at start, never a
// silent fallback.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/attention.h"

namespace quire {

// Why a path cannot compute this phase of the geometry on a device of this SM version; empty if it
// can.
std::string WhyUnsupported(const AttentionCapabilities& path, AttentionPhase phase,
                           const AttentionGeometry& geometry, int sm_version);

// The forced path, or the first of `available` that can serve all layer groups. OUT_OF_RANGE says
// why the forced one cannot, INVALID_ARGUMENT why none can.
absl::StatusOr<AttentionPath> SelectAttentionPath(
    AttentionPhase phase, std::optional<AttentionPath> forced,
    absl::Span<const AttentionGeometry> geometries, int sm_version,
    absl::Span<const AttentionCapabilities* const> available);

}  // namespace quire
