// Command line, environment and --config file to Settings: a flag wins over a variable, which wins
// over the file. Main thread, before anything else runs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "server/start/settings/settings.h"

namespace quire {

// --plan: print how much a start would find room for, and end.
struct PlanRequest {
  bool as_json = false;
  int64_t memory_bytes = 0;  // of the device; 0: the memory of this machine's device
};

struct CommandLine {
  Settings settings;
  // The place from which each given setting got its value, as the user knows it: "--port",
  // "QUIRE_PORT", "configuration key \"port\"". By the setting's name.
  std::map<std::string, std::string> places;
  std::vector<std::string> warnings;  // one sentence each, for the log
  std::optional<PlanRequest> plan;
  bool checks_health = false;  // --check-health: ask a server that runs, and end
  std::string print_and_exit;  // not empty: --help and its like; print this and exit with 0
};

// `args` without the program's name, `environment` as ProcessEnvironment gives it.
// INVALID_ARGUMENT, in one sentence, names the flag, variable or key whose value is not allowed, or
// that is unknown. For an unknown one it names the nearest known one, or says what to do instead of
// another server's flag. A variable QUIRE_... that nobody knows is only a warning.
absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& args,
                                             const std::vector<std::string>& environment = {});

// This process's variables as NAME=VALUE.
std::vector<std::string> ProcessEnvironment();

// Applies the variables QUIRE_..., except QUIRE_CONFIG.
absl::Status ApplyEnvironment(const std::vector<std::string>& environment, CommandLine* result);

// Applies the text of a JSON configuration, whose keys are the flags with underscores.
absl::Status ApplyJson(const std::string& json_text, CommandLine* result);

// INVALID_ARGUMENT when a setting was given that has no effect on `device`.
absl::Status CheckDevice(const CommandLine& command_line, DeviceKind device);

// `sentence` names settings by their flags; this adds the place of a value that is not from a flag.
std::string WithPlaces(const CommandLine& command_line, const std::string& sentence);

}  // namespace quire
