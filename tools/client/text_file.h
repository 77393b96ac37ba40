// Files that flags name, read whole. Main thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace quire::client {

// The file's bytes, also of a pipe. INVALID_ARGUMENT, in one sentence with the file's name, says
// why it cannot be read; `kind` is what it should be, such as "a JSON file".
absl::StatusOr<std::string> ReadTextFile(const std::string& path, const char* kind);

}  // namespace quire::client
