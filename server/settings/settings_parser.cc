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

// What the command line said, before it is given a meaning.
struct RawFlags {
  std::vector<std::pair<const Setting*, std::string>> values;  // in order
  std::string config_file;
  bool print_table = false;
};

void Declare(CLI::App& app, RawFlags& raw) {
  app.set_help_flag("--help,-h", "Print this help and exit.");
  app.set_version_flag("--version", absl::StrCat("quire-server ", kVersion));
  app.allow_extras();
  app.add_option("--config", raw.config_file,
                 "JSON file with these settings, underscores in place of dashes; flags win.");
  app.add_flag("--print-settings-table", raw.print_table,
               "Print the settings as a Markdown table and exit.");
  for (const Setting& setting : SettingTable()) {
    const std::string flag = absl::StrCat("--", setting.name);
    const Setting* declared = &setting;
    CLI::Option* option = nullptr;
    if (setting.is_switch()) {
      option = app.add_flag_callback(flag, [&raw, declared] {
        raw.values.emplace_back(declared, "true");
      });
      app.add_flag_callback(absl::StrCat("--no-", setting.name), [&raw, declared] {
           raw.values.emplace_back(declared, "false");
         })->group("");  // hidden: shown with its positive form
    } else {
      option = app.add_option_function<std::string>(
          flag, [&raw, declared](const std::string& text) {
            raw.values.emplace_back(declared, text);
          });
    }
    const std::string values = AllowedValues(setting);
    option->group(std::string(setting.group))
        ->description(absl::StrCat(setting.help, " Default: ", DefaultValue(setting), ".",
                                   setting.is_switch()
                                       ? absl::StrCat(" --no-", setting.name, " turns it off.")
                                   : values.empty() ? std::string()
                                                    : absl::StrCat(" Allowed: ", values, ".")))
        ->type_name("");
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
  if (settings.max_num_batched_tokens < settings.max_num_seqs) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--max-num-batched-tokens: ", settings.max_num_batched_tokens, " is less than --max-num-seqs ",
        settings.max_num_seqs, "; a step must have room for one token of each sequence"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(const std::vector<std::string>& args) {
  CLI::App app("quire-server: serves a large language model over gRPC.", "quire-server");
  RawFlags raw;
  Declare(app, raw);
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
  if (raw.print_table) {
    result.print_and_exit = SettingsMarkdown();
    return result;
  }
  if (!raw.config_file.empty()) RETURN_IF_ERROR(ApplyFile(raw.config_file, &result.settings));
  for (const auto& [setting, text] : raw.values) {
    RETURN_IF_ERROR(
        SetFromText(*setting, absl::StrCat("--", setting->name), text, &result.settings));
  }
  RETURN_IF_ERROR(CheckTogether(result.settings));
  return result;
}

}  // namespace quire
