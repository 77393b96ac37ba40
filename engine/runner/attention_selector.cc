#include "engine/runner/attention_selector.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/attention_checks.h"

namespace quire {

namespace {

// Of the first layer group that cannot be served; empty if all can.
std::string WhyUnsupported(const AttentionCapabilities& path, AttentionPhase phase,
                           absl::Span<const AttentionGeometry> geometries, int sm_version) {
  std::string reason;
  for (size_t i = 0; i < geometries.size() && reason.empty(); ++i) {
    reason = WhyUnsupported(path, phase, geometries[i], sm_version);
  }
  return reason;
}

}  // namespace

std::string WhyUnsupported(const AttentionCapabilities& path, AttentionPhase phase,
                           const AttentionGeometry& geometry, int sm_version) {
  if (std::find(path.phases.begin(), path.phases.end(), phase) == path.phases.end()) {
    return phase == AttentionPhase::kDecode ? "does not compute decodes"
                                            : "does not compute prompts";
  }
  if (sm_version < path.min_sm || (path.max_sm > 0 && sm_version > path.max_sm)) {
    return absl::StrCat("needs an SM version from ", path.min_sm, " to ", path.max_sm,
                        ", the device has ", sm_version);
  }
  return WhyUnsupported(path, geometry);
}

absl::StatusOr<AttentionPath> SelectAttentionPath(
    AttentionPhase phase, std::optional<AttentionPath> forced,
    absl::Span<const AttentionGeometry> geometries, int sm_version,
    absl::Span<const AttentionCapabilities* const> available) {
  std::string reasons;
  for (const AttentionCapabilities* path : available) {
    if (forced.has_value() && path->path != *forced) continue;
    const std::string reason = WhyUnsupported(*path, phase, geometries, sm_version);
    if (reason.empty()) return path->path;
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ",
                    forced.has_value() ? "" : absl::StrCat(PathName(path->path), ": "), reason);
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
