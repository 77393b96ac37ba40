// Which folder quire-server serves.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/base/exit_code.h"
#include "server/start/hub/repo_info.h"
#include "server/start/settings/settings.h"

namespace quire {

class Progress;

// The folder of the bundled model: beside an installed program, else in the source tree around
// build/PRESET/bin. NOT_FOUND names the places that were tried.
absl::StatusOr<std::string> FindBundledModel();

// What serving with these settings reads of a model.
ModelNeeds ServingNeeds(const Settings& settings);

// The folder with config.json that the settings mean: a folder that exists, else a model by name,
// of which what is needed is downloaded unless it is in the cache (see FetchHubModel; that may take
// long, and counts in `progress`, which may be null), else the bundled model when none is given. An
// error says what was looked for and what to do; ModelLocationFailureCode tells its exit code. Any
// thread.
absl::StatusOr<std::string> FindModelFolder(const Settings& settings, const ModelNeeds& needs,
                                            Progress* progress);

// INVALID_ARGUMENT is the settings' fault, NOT_FOUND, UNIMPLEMENTED, PERMISSION_DENIED and
// DATA_LOSS the model's, everything else the hub's, the network's or the disk's.
ExitCode ModelLocationFailureCode(const absl::Status& status);

}  // namespace quire
