// Load: sends requests to a server when they are due, over as many connections as they need, and
// records when each answer's tokens came. One thread, the caller's; nothing it does blocks.
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
  int64_t num_connections = 0;  // opened at least; more only where these have no room
  double max_seconds = 0;       // then nothing more is sent, and what runs is cancelled; 0 = never
  double deadline_seconds = 0;  // of each request, from when it is sent; 0 = none
  double cancel_rate = 0;  // share of the requests that are cancelled after some of their tokens
  uint64_t seed = 0;       // of what is cancelled, and of drawing tokens
};

// How well the client kept up: figures of a client that could not are none of the server's.
struct ClientEffort {
  double seconds = 0;               // of the load
  double cpu_seconds = 0;           // of the thread, within them
  std::vector<double> lag_ms = {};  // of each request: sent later than it could have been
  int64_t num_connections = 0;      // that were opened
  int64_t max_in_flight = 0;

  double cpu_share() const { return cpu_seconds / std::max(seconds, 1e-9); }
};

struct LoadResult {
  std::vector<RequestRecord> records;  // [items.size()]
  ClientEffort effort;
};

// `due` has the seconds at which requests are sent: [items.size()], ascending; of one that
// continues another those from the end of that one's answer, which the backend must keep. What
// follows a turn that did not complete is not sent. Returns at the load's end; or, once
// Interrupted(), sends nothing more and cancels what runs. `progress`, if any, counts the requests
// that have ended.
LoadResult RunLoad(const ServerAddress& server, const LoadBackend& backend,
                   const std::vector<WorkItem>& items, const std::vector<double>& due,
                   const LoadOptions& options, Progress* progress);

// One request, to its end. UNAVAILABLE when there is no answer within 10 s; else what the backend
// says is wrong, or the body.
absl::StatusOr<std::string> Fetch(const ServerAddress& server, const LoadBackend& backend,
                                  const ClientRequest& request);

}  // namespace quire::bench
