// The files of a model's folder. A folder may come from anybody, so only regular files in it are
// read, and nothing outside it, wherever its links lead. All code that reads a file of such a
// folder uses these functions. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace quire {

// The bound for config.json and for other files that say how a checkpoint is quantized: lists of
// modules may be long.
inline constexpr int64_t kMaxConfigBytes = 32 << 20;

// The path of <folder>/<name> without links. `name` may have folders in it, no "..". The folder
// itself may be a link. A link in the folder must lead to a place in it. In a snapshot of the
// Hugging Face cache (models--org--name/snapshots/commit) a link may also lead to the blobs beside
// the snapshots. NOT_FOUND when there is no such file. INVALID_ARGUMENT when a link leads elsewhere
// or to nothing; the error has the link, its target and what to do.
absl::StatusOr<std::string> RealModelPath(const std::string& folder, absl::string_view name);

// Opens <folder>/<name> for reading; the caller closes it. Errors as above, and INVALID_ARGUMENT if
// it is not a regular file. Never waits for another process.
absl::StatusOr<int> OpenModelFile(const std::string& folder, absl::string_view name);

// The whole file; also INVALID_ARGUMENT when it is longer than `max_bytes`.
absl::StatusOr<std::string> ReadModelFile(const std::string& folder, absl::string_view name,
                                          int64_t max_bytes);

}  // namespace quire
