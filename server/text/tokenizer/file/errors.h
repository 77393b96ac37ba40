// Error statuses from pieces, as Concat takes them. Pure functions; any thread; cold paths only.
#pragma once

#include "absl/status/status.h"
#include "server/text/concat.h"

namespace quire {

template <typename... Parts>
absl::Status InvalidArgument(const Parts&... parts) {
  return absl::InvalidArgumentError(Concat(parts...));
}

template <typename... Parts>
absl::Status Unimplemented(const Parts&... parts) {
  return absl::UnimplementedError(Concat(parts...));
}

}  // namespace quire
