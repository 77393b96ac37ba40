// The file of --address-file: where the server listens, for programs beside it that were not told,
// such as the health check of a container. Main thread.
#pragma once

#include <string>

#include "absl/status/status.h"

namespace quire {

// Writes "HOST:PORT\n" to `path`, all of it at once.
absl::Status WriteAddressFile(const std::string& path, const std::string& address);

}  // namespace quire
