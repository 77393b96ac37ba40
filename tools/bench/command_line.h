// Common parts of the subcommands' command lines: they take quire-server's flags beside their own,
// and answer any other flag with one sentence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/start/settings/settings_parser.h"

namespace quire::bench {

// A flag that `command` does not know is then quire-server's; --help says so.
void AcceptServerFlags(CLI::App& command);
// The settings for which the flags left over from `command` stand. Errors (exit code 64) name the
// nearest flag of `command` or quire-server.
absl::StatusOr<CommandLine> ParseServerFlags(const CLI::App& command);

// An error (exit code 64) naming the nearest flag when something is left over from `command`.
absl::Status CheckNothingLeft(const CLI::App& command);

// An error (exit code 64) for --save-detailed without a file to save to.
absl::Status CheckSaveDetailed(bool save_detailed, const std::optional<std::string>& json_file);

// A number from min to max; refuses any other text, and NaN.
CLI::Validator RealFrom(double min, double max);
// A whole number from 0 to 2^63 - 1: CLI11 would take -1 for 2^64 - 1.
CLI::Validator SeedNumber();

// Adds flags to one group of a command's --help, which says the values that each takes. A value may
// be an optional one, or a list.
class FlagGroup {
 public:
  explicit FlagGroup(CLI::App& command, std::string group = "")
      : command_(command), group_(std::move(group)) {}

  template <typename Value>
  CLI::Option* Count(const std::string& flag, Value* value, int64_t min, int64_t max,
                     const std::string& help) {
    return Text(flag, value, "N", help)->check(CLI::Range(min, max));
  }
  template <typename Value>
  CLI::Option* Real(const std::string& flag, Value* value, double min, double max,
                    const std::string& help) {
    return Text(flag, value, "NUMBER", help)->check(RealFrom(min, max));
  }
  // `type` is what --help calls the value: "FILE".
  template <typename Value>
  CLI::Option* Text(const std::string& flag, Value* value, const std::string& type,
                    const std::string& help) {
    return Grouped(command_.add_option(flag, *value, help)->type_name(type));
  }
  template <typename Value>
  CLI::Option* OneOf(const std::string& flag, Value* value, const std::vector<std::string>& names,
                     const std::string& help) {
    return Grouped(command_.add_option(flag, *value, help)->check(CLI::IsMember(names)));
  }
  template <typename Value>
  CLI::Option* Seed(const std::string& flag, Value* value, const std::string& help) {
    return Text(flag, value, "N", help)->check(SeedNumber());
  }
  CLI::Option* Switch(const std::string& flag, bool* value, const std::string& help) {
    return Grouped(command_.add_flag(flag, *value, help));
  }
  // --json and --save-detailed, which several commands have.
  void Json(std::optional<std::string>* path);
  void SaveDetailed(bool* save_detailed);

 private:
  CLI::Option* Grouped(CLI::Option* option) const {
    return group_.empty() ? option : option->group(group_);
  }

  CLI::App& command_;
  const std::string group_;
};

}  // namespace quire::bench
