// One load of a running server, as `serve` runs it and `sweep` does again and again; in serve.cc.
// Main thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/load/load.h"
#include "tools/bench/load/load_backend.h"
#include "tools/bench/result_file.h"
#include "tools/bench/serve/serve_flags.h"
#include "tools/bench/serve/serve_report.h"

namespace quire::bench {

struct ServedTarget {
  ServerAddress address;
  std::unique_ptr<LoadBackend> backend;
  ServedModel model;
};

// An error (exit code 69) at once when no server answers.
absl::StatusOr<ServedTarget> OpenTarget(const ServeFlags& flags);

// --num-warmups.
absl::Status WarmUp(const ServeFlags& flags, const ServedTarget& target);

// The load that the flags describe. Within an InterruptibleRun.
LoadResult RunServedLoad(const ServeFlags& flags, const ServedTarget& target,
                         const std::vector<WorkItem>& items);

// What --json writes of it.
nlohmann::ordered_json ResultJson(const ServeFlags& flags, const ServedTarget& target,
                                  const std::vector<WorkItem>& items, const LoadResult& result,
                                  const ServeReport& report);

// Says on standard error what makes the figures doubtful.
void WarnOfDoubts(const ServeFlags& flags, const ServeReport& report, const ClientEffort& effort);

// The file of --save-result, named after `load` and the rest; null without the flag.
absl::StatusOr<std::unique_ptr<ResultFile>> OpenSavedResult(const ServeFlags& flags,
                                                            const ServedTarget& target,
                                                            const std::string& load);

}  // namespace quire::bench
