// Errors of templates, put together from pieces. Pure functions; any thread.
#pragma once

#include "absl/status/status.h"
#include "server/text/concat.h"

namespace quire::jinja {

// Every error in a template is INVALID_ARGUMENT.
template <typename... Pieces>
absl::Status Error(const Pieces&... pieces) {
  return absl::InvalidArgumentError(Concat(pieces...));
}

}  // namespace quire::jinja
