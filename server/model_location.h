// Which folder quire-server serves. Main thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace quire {

// The folder of the bundled model: beside an installed program, else in the source tree of a
// development build. NOT_FOUND names the places that were tried.
absl::StatusOr<std::string> FindBundledModel();

// The folder with config.json that `--model` means: a folder, a model of the Hugging Face cache, or
// the bundled model when it is empty. NOT_FOUND says what was looked for.
absl::StatusOr<std::string> FindModelFolder(const std::string& model);

}  // namespace quire
