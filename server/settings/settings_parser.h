// Command line and --config file to Settings. Flags win over the file. Main thread, before anything
// else runs.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/settings/settings.h"

namespace quire {

struct CommandLine {
  Settings settings;
  std::string print_and_exit;  // not empty: --help and its like; print this and exit with 0
};

// `args` without the program's name. INVALID_ARGUMENT, in one sentence, names the flag or key that
// is unknown (with the nearest known one) or whose value is not allowed.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& args);

// Applies the text of a JSON configuration, whose keys are the flags with underscores.
absl::Status ApplyJson(const std::string& json_text, Settings* settings);

// The known name nearest to `name` by edit distance; empty when none is near.
std::string NearestName(const std::string& name, const std::vector<std::string>& known);

}  // namespace quire
