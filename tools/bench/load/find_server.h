// The address to which a load's connections go, and how they speak TLS there. Main thread.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "server/wire/client/server_address.h"

namespace quire::bench {

// `target` as client::ParseTarget writes it: HOST:PORT, with https:// before it for TLS. The
// environment names the files for TLS (tools/client/credentials.h). UNAVAILABLE when the host has
// no address.
absl::StatusOr<ServerAddress> FindServer(std::string_view target);

}  // namespace quire::bench
