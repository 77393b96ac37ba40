// A conversation as a JSON file: an array of {"role", "content", ...}, which `quire chat` saves and
// `quire generate --messages` reads. Main thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "quire/v1/inference.pb.h"

namespace quire::client {

// Keys besides role and content go into extra_json. INVALID_ARGUMENT, in one sentence with the
// file's name, says what is wrong with it.
absl::StatusOr<v1::Messages> ReadMessages(const std::string& path);

// Writes the file as a whole or, when that fails (INVALID_ARGUMENT in one sentence), not at all. A
// file that is there already is replaced only if it holds messages too. "~/" at the beginning of
// the path is the user's home.
absl::Status WriteMessages(const std::string& path, const v1::Messages& messages);

}  // namespace quire::client
