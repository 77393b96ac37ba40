// The files of a model's folder. A folder may come from anybody: nothing outside it is read,
// whatever its links say, and nothing that is not a regular file. Whoever reads a file of such a
// folder does it here. Any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace quire {

// Of config.json and of other files that say how a checkpoint is quantized: lists of modules may be
// long.
inline constexpr int64_t kMaxConfigBytes = 32 << 20;

// The path of <folder>/<name> without links. `name` may have folders in it, no "..". The folder
// itself may be a link. A link in it must lead to a place in it; one in a snapshot of the Hugging
// Face cache (models--org--name/snapshots/commit) also to the blobs beside the snapshots.
// NOT_FOUND when there is none; INVALID_ARGUMENT, with the link, where it leads and what to do,
// when it leads elsewhere or to nothing.
absl::StatusOr<std::string> RealModelPath(const std::string& folder, absl::string_view name);

// Opens <folder>/<name> for reading; who calls closes it. Errors as above, and INVALID_ARGUMENT for
// what is not a regular file. Waits for nobody.
absl::StatusOr<int> OpenModelFile(const std::string& folder, absl::string_view name);

// The whole file; also INVALID_ARGUMENT when it is longer than `max_bytes`.
absl::StatusOr<std::string> ReadModelFile(const std::string& folder, absl::string_view name,
                                          int64_t max_bytes);

}  // namespace quire
