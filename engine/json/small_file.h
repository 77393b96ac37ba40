// Small files, which are read whole. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace quire {

// The whole file. NOT_FOUND when there is none; INVALID_ARGUMENT, naming it, when it is not a
// regular file, cannot be read or is longer than `max_bytes`. Never waits for a writer.
absl::StatusOr<std::string> ReadSmallFile(const std::string& path, int64_t max_bytes);
// The same of a file that is open already, and stays so; `path` is for errors.
absl::StatusOr<std::string> ReadOpenFile(int fd, const std::string& path, int64_t max_bytes);

// What the last system call says of `path`: NOT_FOUND or INVALID_ARGUMENT.
absl::Status FileError(const std::string& path);

}  // namespace quire
