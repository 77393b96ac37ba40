// ResolveModelFolder: from what a user names to the folder that holds config.json. Any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace quire {

// `path` itself when it has a config.json. A folder of the Hugging Face cache
// (models--org--name/{refs,snapshots}) becomes its snapshot: the one refs/main names, else the only
// one. NOT_FOUND, saying what was looked for, otherwise.
absl::StatusOr<std::string> ResolveModelFolder(const std::string& path);

}  // namespace quire
