#include "tools/bench/command_line.h"

#include <limits>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/start/settings/setting_table.h"
#include "server/start/settings/settings_parser.h"
#include "server/text/near_name.h"
#include "tools/bench/failure.h"

namespace quire::bench {

namespace {

std::vector<std::string> OwnFlags(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  return flags;
}

absl::Status UnknownFlag(const CLI::App& command, const std::string& argument, bool server_flags) {
  std::vector<std::string> known = OwnFlags(command);
  if (server_flags) {
    for (const Setting& setting : SettingTable()) known.push_back("--" + setting.name);
  }
  const std::string flag = argument.substr(0, argument.find('='));
  return UsageError(absl::StrCat(
      "unknown flag ", flag, "; ",
      DidYouMean(flag, known,
                 absl::StrCat("quire-bench ", command.get_name(), " --help lists the flags"))));
}

}  // namespace

void AcceptServerFlags(CLI::App& command) {
  command.allow_extras();
  const std::string footer = command.get_footer();
  command.footer(absl::StrCat(
      footer, footer.empty() ? "" : "\n\n",
      "All other flags are quire-server's (quire-server --help lists them), for example --model, "
      "--dtype,\n--device, --max-num-seqs, --max-model-len."));
}

absl::StatusOr<CommandLine> ParseServerFlags(const CLI::App& command) {
  const std::vector<std::string> left = command.remaining();
  absl::StatusOr<CommandLine> line = ParseCommandLine(left);
  if (!line.ok()) {
    // The server knows only its own flags to choose the nearest from.
    for (const std::string& argument : left) {
      const std::string flag = argument.substr(0, argument.find('='));
      if (absl::StartsWith(flag, "--") &&
          absl::StrContains(line.status().message(), absl::StrCat("unknown flag ", flag))) {
        return UnknownFlag(command, flag, /*server_flags=*/true);
      }
    }
    return WithExitCode(kUsage, line.status());
  }
  if (!line->print_and_exit.empty() || line->checks_health) {
    return UsageError(
        "a flag that only prints or checks something is quire-server's own; run quire-server");
  }
  return line;
}

absl::Status CheckNothingLeft(const CLI::App& command) {
  const std::vector<std::string> left = command.remaining();
  if (left.empty()) return absl::OkStatus();
  if (absl::StartsWith(left[0], "-")) return UnknownFlag(command, left[0], /*server_flags=*/false);
  return UsageError(absl::StrCat("unexpected argument \"", left[0], "\"; quire-bench ",
                                 command.get_name(), " --help shows what it takes"));
}

void AddJsonFlag(CLI::App& command, std::optional<std::string>* path) {
  command.add_option("--json", *path, "Write the results to this file too")->type_name("FILE");
}

void AddSaveDetailedFlag(CLI::App& command, bool* save_detailed) {
  command.add_flag("--save-detailed", *save_detailed,
                   "With every request's lengths, times and text: compare and report need them for "
                   "intervals and plots");
}

absl::Status CheckSaveDetailed(bool save_detailed, const std::optional<std::string>& json_file) {
  if (!save_detailed || json_file.has_value()) return absl::OkStatus();
  return UsageError("--save-detailed goes with --json");
}

CLI::Option* FlagGroup::Finish(CLI::Option* option, const std::string& type) const {
  if (!type.empty()) option->type_name(type);
  return group_.empty() ? option : option->group(group_);
}

CLI::Option* FlagGroup::Count(const std::string& flag, int64_t* value, int64_t min, int64_t max,
                              const std::string& help) {
  return Finish(command_.add_option(flag, *value, help)->check(CLI::Range(min, max)), "N");
}

CLI::Option* FlagGroup::Count(const std::string& flag, int32_t* value, int64_t min, int64_t max,
                              const std::string& help) {
  return Finish(command_.add_option(flag, *value, help)->check(CLI::Range(min, max)), "N");
}

CLI::Option* FlagGroup::Real(const std::string& flag, double* value, double min, double max,
                             const std::string& help) {
  return Finish(command_.add_option(flag, *value, help)->check(RealFrom(min, max)), "NUMBER");
}

CLI::Option* FlagGroup::Real(const std::string& flag, float* value, double min, double max,
                             const std::string& help) {
  return Finish(command_.add_option(flag, *value, help)->check(RealFrom(min, max)), "NUMBER");
}

CLI::Option* FlagGroup::Real(const std::string& flag, std::optional<double>* value, double min,
                             double max, const std::string& help) {
  return Finish(command_.add_option(flag, *value, help)->check(RealFrom(min, max)), "NUMBER");
}

CLI::Option* FlagGroup::Text(const std::string& flag, std::string* value, const std::string& type,
                             const std::string& help) {
  return Finish(command_.add_option(flag, *value, help), type);
}

CLI::Option* FlagGroup::Text(const std::string& flag, std::optional<std::string>* value,
                             const std::string& type, const std::string& help) {
  return Finish(command_.add_option(flag, *value, help), type);
}

CLI::Option* FlagGroup::Texts(const std::string& flag, std::vector<std::string>* values,
                              const std::string& type, const std::string& help) {
  return Finish(command_.add_option(flag, *values, help), type);
}

CLI::Option* FlagGroup::OneOf(const std::string& flag, std::string* value,
                              const std::vector<std::string>& names, const std::string& help) {
  return Finish(command_.add_option(flag, *value, help)->check(CLI::IsMember(names)), "");
}

CLI::Option* FlagGroup::Switch(const std::string& flag, bool* value, const std::string& help) {
  return Finish(command_.add_flag(flag, *value, help), "");
}

CLI::Validator RealFrom(double min, double max) {
  return CLI::Validator(
      [min, max](const std::string& text) -> std::string {
        double number = 0;
        if (absl::SimpleAtod(text, &number) && number >= min && number <= max) return "";
        return absl::StrCat("\"", text, "\" is not allowed; allowed is ", min, " .. ", max);
      },
      "");
}

CLI::Validator SeedNumber() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        int64_t number = 0;
        if (absl::SimpleAtoi(text, &number) && number >= 0) return "";
        return absl::StrCat("\"", text, "\" is not allowed; allowed is 0 .. ",
                            std::numeric_limits<int64_t>::max());
      },
      "");
}

absl::Status CheckCommandName(const CLI::App& app, const std::string& name) {
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    known.push_back(command->get_name());
    if (name == known.back()) return absl::OkStatus();
  }
  return UsageError(absl::StrCat(
      "unknown command \"", name, "\"; ",
      DidYouMean(name, known, absl::StrCat("there are ", absl::StrJoin(known, ", ")))));
}

}  // namespace quire::bench
