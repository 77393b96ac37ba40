// Small files, which are read whole. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace quire {

// The whole file. NOT_FOUND when there is none; INVALID_ARGUMENT, naming it, when it is not a
// regular file, cannot be read or is longer than `max_bytes`. Never waits for a writer.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t max_bytes);

}  // namespace quire
