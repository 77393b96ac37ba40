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

// The parts of a model that serving with these settings reads.
ModelNeeds ServingNeeds(const Settings& settings);

// The folder with config.json that the settings mean. This is a folder that exists; else a model by
// name; else, when none is given, the bundled model. The files that are needed of a model by name
// are downloaded unless they are in the cache (see FetchHubModel; that may take long, and counts in
// `progress`, which may be null). An error says what was looked for and what to do;
// ModelLocationFailureCode tells its exit code. Any thread.
absl::StatusOr<std::string> FindModelFolder(const Settings& settings, const ModelNeeds& needs,
                                            Progress* progress);

// INVALID_ARGUMENT is the settings' fault, NOT_FOUND, UNIMPLEMENTED, PERMISSION_DENIED and
// DATA_LOSS the model's, everything else the hub's, the network's or the disk's.
ExitCode ModelLocationFailureCode(const absl::Status& status);

}  // namespace quire
