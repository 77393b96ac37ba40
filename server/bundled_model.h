// Where the bundled model is: what quire-server serves without --model. Main thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace quire {

// The folder of the bundled model: beside an installed program, else in the source tree of a
// development build. NOT_FOUND names the places that were tried.
absl::StatusOr<std::string> FindBundledModel();

}  // namespace quire
