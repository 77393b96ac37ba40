// ResultFile: a file of results that is written either whole or not at all. Its path is known to be
// writable before a measurement begins. One thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/interrupt.h"

namespace quire::bench {

// Removes a file that Write has not put in place.
class ResultFile {
 public:
  // Makes an empty file beside `path`, which is left as it is until Write. The error (exit code 64)
  // names it by `flag`. A path that is no regular file, such as /dev/stdout (or "-"), is written
  // directly.
  static absl::StatusOr<std::unique_ptr<ResultFile>> Open(const std::string& flag,
                                                          const std::string& path);
  // Puts a file with this text in the place of `path`. Call it once. If it fails, the error (exit
  // code 69) says why, and an earlier file is still there.
  absl::Status Write(const std::string& text);

 private:
  ResultFile(std::string path, std::string part_path);
  absl::Status Error(int error_number) const;

  std::string path_;                    // symbolic links resolved
  std::string part_path_;               // empty: path_ is written directly, or is already written
  std::optional<ExitCleanup> removal_;  // of part_path_
};

// A file for --json or --html; null when no path was given.
absl::StatusOr<std::unique_ptr<ResultFile>> OpenResultFile(const std::string& flag,
                                                           const std::optional<std::string>& path);

// Writes the results as JSON to such a file; does nothing if it is null.
absl::Status WriteJson(const nlohmann::ordered_json& json, ResultFile* file);

}  // namespace quire::bench
