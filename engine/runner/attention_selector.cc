#include "engine/runner/attention_selector.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "kernels/attention_checks.h"

namespace quire {

namespace {

// Measured on an H200 (docs/lab/attention.md, "The paths side by side"): the second path's decodes
// take less time for most batches and every 8-bit cache, its prompts run on the native kernels.
std::array<AttentionPath, 2> FastestFirst(AttentionPhase phase) {
  if (phase == AttentionPhase::kDecode) return {AttentionPath::kTrtllm, AttentionPath::kNative};
  return {AttentionPath::kNative, AttentionPath::kTrtllm};
}

// The reason for the first layer group that the path cannot serve, or else for the number of
// sequences. Empty if it can serve all.
std::string WhyUnsupported(const AttentionCapabilities& path, const AttentionDemand& demand) {
  for (const AttentionGeometry& geometry : demand.geometries) {
    const std::string reason = WhyUnsupported(path, geometry, demand.sm_version);
    if (!reason.empty()) return reason;
  }
  return WhyUnsupported(path, demand.max_num_seqs);
}

}  // namespace

std::string WhyUnsupported(const AttentionCapabilities& path, const AttentionGeometry& geometry,
                           int sm_version) {
  if (sm_version < path.min_sm || (path.max_sm > 0 && sm_version > path.max_sm)) {
    return absl::StrCat("needs an SM version from ", path.min_sm, " to ", path.max_sm,
                        ", the device has ", sm_version);
  }
  return WhyUnsupported(path, geometry);
}

absl::StatusOr<AttentionPath> SelectAttentionPath(
    AttentionPhase phase, std::optional<AttentionPath> forced, const AttentionDemand& demand,
    absl::Span<const AttentionCapabilities* const> available) {
  std::string reasons;
  for (const AttentionPath path : FastestFirst(phase)) {
    if (forced.has_value() && path != *forced) continue;
    const auto found =
        std::find_if(available.begin(), available.end(),
                     [&](const AttentionCapabilities* other) { return other->path == path; });
    if (found == available.end()) continue;
    const std::string reason = WhyUnsupported(**found, demand);
    if (reason.empty()) return path;
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ",
                    forced.has_value() ? "" : absl::StrCat(PathName(path), ": "), reason);
  }
  if (forced.has_value()) {
    return absl::OutOfRangeError(absl::StrCat(
        "--attention-backend ", PathName(*forced),
        reasons.empty() ? " does not exist on this device" : " cannot serve this model: ", reasons,
        "; use --attention-backend auto"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no attention path can serve this model: ", reasons));
}

}  // namespace quire
