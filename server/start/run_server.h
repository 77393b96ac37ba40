// The life of a quire-server process: parses the settings, starts the server, serves until a signal
// or a failure, drains. The calling thread, the process's first, only waits.
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/start/server.h"

namespace quire {

// The time to take everything down after the drain, beside the rest that the drain has left of
// --shutdown-timeout. A longer time means that something hangs.
inline constexpr absl::Duration kTeardownLimit = absl::Seconds(5);

// `args` without the program's name. Returns an exit code of server/base/exit_code.h, or does not
// return when the part that failed may hang.
int RunServer(const std::vector<std::string>& args, BackendOpener open_backend,
              absl::Duration teardown_limit = kTeardownLimit);

}  // namespace quire
