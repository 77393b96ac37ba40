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
// The same for a file that is already open, and stays open; `path` is for errors.
absl::StatusOr<std::string> ReadOpenFile(int fd, const std::string& path, int64_t max_bytes);

// The error of the last system call, about `path`: NOT_FOUND or INVALID_ARGUMENT.
absl::Status FileError(const std::string& path);

}  // namespace quire
