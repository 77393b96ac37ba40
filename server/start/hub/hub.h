// A model by name: from "org/name" to a folder in the cache that holds its files.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "kernels/base/progress.h"
#include "server/start/hub/hub_error.h"
#include "server/start/hub/hub_options.h"
#include "server/start/hub/repo_info.h"

namespace quire {

// The folder of the model's snapshot, complete as far as `needs` says. Asks the hub what the
// revision is now, and downloads the files that the cache lacks; for a whole commit that is in the
// cache it does not ask. When the hub cannot be reached or refuses, it takes the cached files, with
// a warning. Blocks for as long as that takes. Ending the process at any moment leaves nothing
// half-written, and the next call goes on from there. `progress` may be null. Main thread or a
// worker.
//
// NOT_FOUND, PERMISSION_DENIED, DATA_LOSS: the model's fault; UNAVAILABLE, RESOURCE_EXHAUSTED: the
// hub's, the network's or the disk's. The name and the revision are checked already.
absl::StatusOr<std::string> FetchHubModel(const HubSubject& subject, const ModelNeeds& needs,
                                          const HubOptions& options, Progress* progress);

}  // namespace quire
