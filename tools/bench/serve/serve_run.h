// One load of a running server. `serve` runs one, `sweep` runs several. Main thread.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/load/load.h"
#include "tools/bench/result_file.h"
#include "tools/bench/serve/serve_flags.h"
#include "tools/bench/serve/serve_report.h"

namespace quire::bench {

// --num-warmups.
absl::Status WarmUp(const ServeFlags& flags, const ServedTarget& target);

// Sends `items` at the times `due`, which come from DueTimes. Call it within an InterruptibleRun.
LoadResult RunServedLoad(const ServeFlags& flags, const ServedTarget& target,
                         const std::vector<WorkItem>& items, const std::vector<double>& due);

// The load's members in the file of --json.
nlohmann::ordered_json ResultJson(const ServeFlags& flags, const ServedTarget& target,
                                  const std::vector<WorkItem>& items, const LoadResult& result,
                                  const ServeReport& report);

// Says on standard error what makes the figures doubtful. For a later load of the same server it
// says only what concerns that load.
void WarnOfDoubts(const ServeFlags& flags, const std::vector<WorkItem>& items,
                  const ServeReport& report, const ClientEffort& effort, bool is_later = false);

// The file of --save-result.
struct SavedResult {
  std::unique_ptr<ResultFile> file;  // null without the flag
  std::string earlier;               // the file whose lines are kept (--append-result), or empty
};

// Its name comes from `load` and the other values, unless --result-filename gives one.
absl::StatusOr<SavedResult> OpenSavedResult(const ServeFlags& flags, const ServedTarget& target,
                                            const std::string& load);

// Writes a result to the files that the flags name; `json_file` may be null.
absl::Status WriteResult(const nlohmann::ordered_json& result, ResultFile* json_file,
                         const SavedResult& saved);

}  // namespace quire::bench
