#include "tools/bench/command_line.h"

#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/start/settings/setting_table.h"
#include "server/start/settings/settings_parser.h"
#include "server/text/near_name.h"
#include "tools/bench/failure.h"
#include "tools/cli/command_line.h"

namespace quire::bench {

namespace {

// The error for a flag that neither `command` nor the server takes.
absl::Status UnknownFlag(const CLI::App& command, const std::string& flag) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (const Setting& setting : SettingTable()) known.push_back("--" + setting.name);
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
        return UnknownFlag(command, flag);
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
  return UsageError(cli::UnknownArgument(*command.get_parent(), command, left[0]));
}

absl::Status CheckSaveDetailed(bool save_detailed, const std::optional<std::string>& json_file) {
  if (!save_detailed || json_file.has_value()) return absl::OkStatus();
  return UsageError("--save-detailed goes with --json");
}

void FlagGroup::Json(std::optional<std::string>* path) {
  Text("--json", path, "FILE", "Write the results to this file too");
}

void FlagGroup::SaveDetailed(bool* save_detailed) {
  Switch("--save-detailed", save_detailed,
         "With every request's lengths, times and text: compare and report need them for "
         "intervals and plots");
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

}  // namespace quire::bench
