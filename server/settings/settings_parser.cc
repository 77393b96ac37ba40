#include "server/settings/settings_parser.h"

#include <CLI/CLI.hpp>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/base/status_macros.h"
#include "server/settings/setting_table.h"
#include "server/version.h"

namespace quire {

namespace {

// What the command line may say; CLI11 keeps what it did say.
struct Declared {
  std::vector<std::pair<const Setting*, CLI::Option*>> settings;
  std::string config_file;
  bool print_table = false;
};

std::string HelpLine(const Setting& setting) {
  const std::string values = AllowedValues(setting);
  std::string line = absl::StrCat(setting.help, " Default: ", DefaultValue(setting), ".");
  if (setting.is_switch()) return absl::StrCat(line, " --no-", setting.name, " turns it off.");
  return values.empty() ? line : absl::StrCat(line, " Allowed: ", values, ".");
}

void Declare(CLI::App& app, Declared& declared) {
  app.set_help_flag("--help,-h", "Print this help and exit.");
  app.set_version_flag("--version", absl::StrCat("quire-server ", kVersion));
  app.allow_extras();
  app.add_option("--config", declared.config_file,
                 "JSON file with these settings, underscores in place of dashes; flags win.")
      ->take_last();
  app.add_flag("--print-settings-table", declared.print_table,
               "Print the settings as a Markdown table and exit.");
  for (const Setting& setting : SettingTable()) {
    const std::string flag = absl::StrCat("--", setting.name);
    CLI::Option* option = setting.is_switch()
                              ? app.add_flag(absl::StrCat(flag, ",!--no-", setting.name))
                              : app.add_option(flag);
    option->group(setting.group)->description(HelpLine(setting))->type_name("")->take_last();
    declared.settings.emplace_back(&setting, option);
  }
}

absl::Status UnknownArgument(const std::string& argument) {
  if (!absl::StartsWith(argument, "--")) {
    return absl::InvalidArgumentError(
        absl::StrCat("unexpected argument \"", argument, "\"; settings begin with --"));
  }
  std::vector<std::string> known = {"--config", "--help", "--version"};
  for (const Setting& setting : SettingTable()) {
    known.push_back(absl::StrCat("--", setting.name));
    if (setting.is_switch()) known.push_back(absl::StrCat("--no-", setting.name));
  }
  const std::string flag = argument.substr(0, argument.find('='));
  const std::string nearest = NearestName(flag, known);
  return absl::InvalidArgumentError(
      absl::StrCat("unknown flag ", flag,
                   nearest.empty() ? "; --help lists the flags"
                                   : absl::StrCat("; did you mean ", nearest, "?")));
}

absl::Status ApplyFile(const std::string& path, Settings* settings) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  if (!file.good()) {
    return absl::InvalidArgumentError(absl::StrCat("--config: cannot read \"", path, "\""));
  }
  return ApplyJson(text.str(), settings);
}

// What single ranges cannot say.
absl::Status CheckTogether(const Settings& settings) {
  if (settings.max_num_batched_tokens != 0 &&
      settings.max_num_batched_tokens < settings.max_num_seqs) {
    return absl::InvalidArgumentError(
        absl::StrCat("--max-num-batched-tokens: ", settings.max_num_batched_tokens,
                     " is less than --max-num-seqs ", settings.max_num_seqs,
                     "; a step must have room for one token of each sequence"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& args) {
  CLI::App app("quire-server: serves a large language model over gRPC.", "quire-server");
  Declared declared;
  Declare(app, declared);
  CommandLine result;
  try {  // CLI11 reports by exceptions; none leaves this function
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::CallForHelp&) {
    result.print_and_exit = app.help();
    return result;
  } catch (const CLI::CallForVersion&) {
    result.print_and_exit = absl::StrCat("quire-server ", kVersion, "\n");
    return result;
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (!app.remaining().empty()) return UnknownArgument(app.remaining().front());
  if (declared.print_table) {
    result.print_and_exit = SettingsMarkdown();
    return result;
  }
  if (!declared.config_file.empty()) {
    RETURN_IF_ERROR(ApplyFile(declared.config_file, &result.settings));
  }
  for (const auto& [setting, option] : declared.settings) {
    if (option->count() == 0) continue;
    RETURN_IF_ERROR(SetFromText(*setting, absl::StrCat("--", setting->name),
                                option->results().back(), &result.settings));
  }
  RETURN_IF_ERROR(CheckTogether(result.settings));
  return result;
}

}  // namespace quire
