// The meaning of the hub's refusals: one sentence each, with the cure. Any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "server/start/hub/http_client.h"
#include "server/start/hub/hub_options.h"

namespace quire {

// The model and the revision that were asked for.
struct HubSubject {
  std::string name;      // "org/name"
  std::string revision;  // "main"
};

// Whether the answer is a web page, as a proxy or a log-in page sends it.
bool IsWebPage(const HubResponse& response);

// The sentence for an answer that is not what was asked for. NOT_FOUND: no such model or revision;
// PERMISSION_DENIED: it may not be read; UNAVAILABLE: the hub or the way there.
absl::Status ExplainResponse(const HubResponse& response, const HubSubject& subject,
                             const HubOptions& options);

// The sentence for a file of the cache folder that cannot be written: `error_number` is errno's.
// RESOURCE_EXHAUSTED for a full disk, else UNAVAILABLE.
absl::Status ExplainWriteError(const std::string& path, int error_number);

}  // namespace quire
