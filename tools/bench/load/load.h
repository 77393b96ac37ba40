// Load: sends requests to a server when they are due, over as many connections as they need, and
// records when each answer's tokens came. It runs on the caller's thread, and nothing in it blocks.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/base/progress.h"
#include "server/wire/client/server_address.h"
#include "tools/bench/load/load_backend.h"
#include "tools/bench/load/request_record.h"
#include "tools/bench/workload.h"

namespace quire::bench {

struct LoadOptions {
  int64_t max_concurrency = 0;  // requests in flight; 0 = any number
  int64_t num_connections = 0;  // at least this many are opened; more only if these have no room
  double max_seconds = 0;       // after that, nothing more is sent, and running requests are
                                // cancelled; 0 = never
  double deadline_seconds = 0;  // for each request, from the moment it is sent; 0 = none
  double cancel_rate = 0;  // share of the requests that are cancelled after some of their tokens
  uint64_t seed = 0;       // for choosing requests to cancel, and for drawing tokens
};

// How well the client kept up. If it could not keep up, the figures do not describe the server.
struct ClientEffort {
  double seconds = 0;               // duration of the load
  double cpu_seconds = 0;           // of the thread, within `seconds`
  std::vector<double> lag_ms = {};  // how much later each request was sent than it could have been
  int64_t num_connections = 0;      // connections that were opened
  int64_t max_in_flight = 0;

  double cpu_share() const { return cpu_seconds / std::max(seconds, 1e-9); }
};

struct LoadResult {
  std::vector<RequestRecord> records;  // [items.size()]
  ClientEffort effort;
};

// `due` has the seconds at which requests are sent: [items.size()], ascending. If a request
// continues another one, its seconds count from the end of the earlier answer, which the backend
// must keep. After a turn that did not complete, the later turns are not sent. Returns at the
// load's end. Once Interrupted(), it sends nothing more and cancels running requests. `progress`,
// if any, counts the requests that have ended.
LoadResult RunLoad(const ServerAddress& server, const LoadBackend& backend,
                   const std::vector<WorkItem>& items, const std::vector<double>& due,
                   const LoadOptions& options, Progress* progress);

// Sends one request and waits for its end. UNAVAILABLE if there is no answer within 10 s; else the
// problem that the backend finds, or the body.
absl::StatusOr<std::string> Fetch(const ServerAddress& server, const LoadBackend& backend,
                                  const ClientRequest& request);

}  // namespace quire::bench
