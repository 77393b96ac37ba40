// Chooses the attention path that computes a phase of a deployment's steps. The choice is a pure
// function of the request and of the paths' capabilities. A forced choice that cannot work is an
// error at start, never a silent fallback.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/attention.h"

namespace quire {

// The demands of a deployment on its attention.
struct AttentionDemand {
  std::vector<AttentionGeometry> geometries;  // of the layer groups
  int64_t max_num_seqs;                       // of a step
  int sm_version;
};

// Why a path cannot compute the geometry on a device of this SM version; empty if it can.
std::string WhyUnsupported(const AttentionCapabilities& path, const AttentionGeometry& geometry,
                           int sm_version);

// The forced path; or, among the `available` paths that can serve all layer groups, the fastest one
// for the phase. OUT_OF_RANGE says why the forced path cannot, INVALID_ARGUMENT why none can.
absl::StatusOr<AttentionPath> SelectAttentionPath(
    AttentionPhase phase, std::optional<AttentionPath> forced, const AttentionDemand& demand,
    absl::Span<const AttentionCapabilities* const> available);

}  // namespace quire
