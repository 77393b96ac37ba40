// quire-server --plan: prints how much a start would find room for, and ends. Main thread.
#pragma once

#include <string>

#include "server/start/server.h"
#include "server/start/settings/settings_parser.h"

namespace quire {

// `command_line.plan` is set. Loads nothing and opens no port; of a model by name it downloads only
// the small files. Returns an exit code as a start would.
int RunPlan(const CommandLine& command_line, const BackendOpener& open_backend);

}  // namespace quire
