// quire-server --plan: prints what a start would find room for, and ends. Main thread.
#pragma once

#include <string>

#include "server/start/server.h"
#include "server/start/settings/settings_parser.h"

namespace quire {

// `command_line.plan` is set. Nothing is loaded, no port is opened; of a model by name the small
// files alone are downloaded. Returns an exit code as a start would.
int RunPlan(const CommandLine& command_line, const BackendOpener& open_backend);

}  // namespace quire
