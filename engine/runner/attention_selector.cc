#include "engine/runner/attention_selector.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace quire {

namespace {

const char* PathName(AttentionPath path) {
  return path == AttentionPath::kNative ? "native" : "trtllm";
}

template <typename T>
bool Contains(const std::vector<T>& values, T value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

std::string WhyUnsupported(const AttentionCapabilities& path, const AttentionGeometry& geometry,
                           int sm_version) {
  if (sm_version < path.min_sm || (path.max_sm > 0 && sm_version > path.max_sm)) {
    return absl::StrCat("needs an SM version from ", path.min_sm, " to ", path.max_sm,
                        ", the device has ", sm_version);
  }
  if (!Contains(path.query_dtypes, geometry.query_dtype)) {
    return absl::StrCat("does not take ", DTypeName(geometry.query_dtype), " queries");
  }
  if (!Contains(path.kv_dtypes, geometry.kv_dtype)) {
    return absl::StrCat("does not take a ", DTypeName(geometry.kv_dtype), " KV cache");
  }
  if (!Contains(path.block_sizes, geometry.block_size)) {
    return absl::StrCat("takes block sizes ", absl::StrJoin(path.block_sizes, ", "), ", not ",
                        geometry.block_size, " (--block-size)");
  }
  if (path.head_dims.empty()) {
    if (geometry.head_dim % 8 != 0 || geometry.head_dim > 256) {
      return absl::StrCat("takes head sizes that are multiples of 8 up to 256, not ",
                          geometry.head_dim);
    }
  } else if (!Contains(path.head_dims, static_cast<int>(geometry.head_dim))) {
    return absl::StrCat("takes head sizes ", absl::StrJoin(path.head_dims, ", "), ", not ",
                        geometry.head_dim);
  }
  if (geometry.sliding_window > 0 && !path.sliding_window) return "has no sliding window";
  if (geometry.soft_cap > 0 && !path.soft_cap) return "has no soft cap";
  return "";
}

absl::StatusOr<AttentionPath> SelectAttentionPath(
    std::optional<AttentionPath> forced, const AttentionGeometry& geometry, int sm_version,
    absl::Span<const AttentionCapabilities* const> available) {
  std::string reasons;
  for (const AttentionCapabilities* path : available) {
    if (forced.has_value() && path->path != *forced) continue;
    const std::string reason = WhyUnsupported(*path, geometry, sm_version);
    if (reason.empty()) return path->path;
    absl::StrAppend(&reasons, reasons.empty() ? "" : "; ", PathName(path->path), ": ", reason);
  }
  if (forced.has_value() && reasons.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("the ", PathName(*forced),
                                                   " attention path does not exist on this device; "
                                                   "use --attention-backend auto"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("no attention path can serve this model: ", reasons));
}

}  // namespace quire
