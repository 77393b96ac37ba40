// ResultFile: a file of results that is either written whole or not at all, and whose path is known
// to be writable before anything is measured. One thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/interrupt.h"

namespace quire::bench {

// Removes what Write has not put in place.
class ResultFile {
 public:
  // Makes an empty file beside `path`, which is left as it is until Write. `flag` is what the error
  // (exit code 64) calls it. A path that is no regular file, as /dev/stdout (or "-"), is written
  // directly.
  static absl::StatusOr<std::unique_ptr<ResultFile>> Open(const std::string& flag,
                                                          const std::string& path);
  // Puts a file with this text in the place of `path`; once. The error (exit code 69) says why not:
  // then an earlier file is still there.
  absl::Status Write(const std::string& text);

 private:
  ResultFile(std::string path, std::string part_path);
  absl::Status Error(int error_number) const;

  std::string path_;                    // symbolic links resolved
  std::string part_path_;               // empty: path_ is written directly, or is written
  std::optional<ExitCleanup> removal_;  // of part_path_
};

// A file for --json or --html; null when no path was given.
absl::StatusOr<std::unique_ptr<ResultFile>> OpenResultFile(const std::string& flag,
                                                           const std::optional<std::string>& path);

// The results as JSON into such a file; nothing where it is null.
absl::Status WriteJson(const nlohmann::ordered_json& json, ResultFile* file);

}  // namespace quire::bench
