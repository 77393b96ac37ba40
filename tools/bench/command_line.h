// What the subcommands' command lines have in common: quire-server's flags beside their own, and
// one sentence for what is neither.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/start/settings/settings_parser.h"

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace quire::bench {

// What `command` does not know is quire-server's; --help says so.
void AcceptServerFlags(CLI::App& command);
// The settings that the flags left over from `command` stand for. Errors (exit code 64) name the
// nearest flag of either.
absl::StatusOr<CommandLine> ParseServerFlags(const CLI::App& command);

// An error (exit code 64) naming the nearest flag when something is left over from `command`, which
// takes no flags of the server.
absl::Status CheckNothingLeft(const CLI::App& command);

// --json: the path, if given.
void AddJsonFlag(CLI::App& command, std::optional<std::string>* path);

// --save-detailed.
void AddSaveDetailedFlag(CLI::App& command, bool* save_detailed);
// An error (exit code 64) where there is no file to save that in.
absl::Status CheckSaveDetailed(bool save_detailed, const std::optional<std::string>& json_file);

// Adds flags to one group of a command's --help. What is added says which values it takes.
class FlagGroup {
 public:
  explicit FlagGroup(CLI::App& command, std::string group = "")
      : command_(command), group_(std::move(group)) {}

  CLI::Option* Count(const std::string& flag, int64_t* value, int64_t min, int64_t max,
                     const std::string& help);
  CLI::Option* Count(const std::string& flag, int32_t* value, int64_t min, int64_t max,
                     const std::string& help);
  CLI::Option* Real(const std::string& flag, double* value, double min, double max,
                    const std::string& help);
  CLI::Option* Real(const std::string& flag, float* value, double min, double max,
                    const std::string& help);
  CLI::Option* Real(const std::string& flag, std::optional<double>* value, double min, double max,
                    const std::string& help);
  // `type` is what --help calls the value: "FILE".
  CLI::Option* Text(const std::string& flag, std::string* value, const std::string& type,
                    const std::string& help);
  CLI::Option* Text(const std::string& flag, std::optional<std::string>* value,
                    const std::string& type, const std::string& help);
  CLI::Option* Texts(const std::string& flag, std::vector<std::string>* values,
                     const std::string& type, const std::string& help);
  CLI::Option* OneOf(const std::string& flag, std::string* value,
                     const std::vector<std::string>& names, const std::string& help);
  CLI::Option* Switch(const std::string& flag, bool* value, const std::string& help);

 private:
  CLI::Option* Finish(CLI::Option* option, const std::string& type) const;

  CLI::App& command_;
  const std::string group_;
};

// A number from min to max; refuses what is not a number, NaN included.
CLI::Validator RealFrom(double min, double max);

// A whole number from 0 to 2^63 - 1: CLI11 would take -1 for 2^64 - 1.
CLI::Validator SeedNumber();

// An error (exit code 64) for a first argument that is no subcommand of `app`.
absl::Status CheckCommandName(const CLI::App& app, const std::string& name);

}  // namespace quire::bench
