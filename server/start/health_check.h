// quire-server --check-health: asks a server that runs beside this program whether it serves, and
// ends. The health check of a container runs it. Main thread.
#pragma once

#include "server/start/settings/settings.h"

namespace quire {

// Asks for /health at the address in the file of --address-file, else at --port of this machine. A
// server that takes only TLS is asked through TLS; its certificate is not verified, because it has
// another name than this machine's own address. Returns an exit code: 0, or 69 after one line on
// standard error.
int CheckHealth(const Settings& settings);

}  // namespace quire
