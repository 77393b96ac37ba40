#include "tools/cli/command_line.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "CLI/CLI.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "server/text/near_name.h"
#include "tools/cli/man_page.h"

namespace quire::cli {

namespace {

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> FlagNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

std::string FullName(const CLI::App& app, const CLI::App& chosen) {
  return &app == &chosen ? app.get_name() : absl::StrCat(app.get_name(), " ", chosen.get_name());
}

// A flag before the command, where only the program's own may stand.
std::string MisplacedFlag(const CLI::App& app, const std::string& flag) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  std::vector<std::string> known = FlagNames(app);
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::vector<std::string> flags = FlagNames(*command);
    known.insert(known.end(), flags.begin(), flags.end());
    const bool named = given.empty() || given.front() == command;
    if (!named || std::find(flags.begin(), flags.end(), flag) == flags.end()) continue;
    return absl::StrCat(flag, " goes after the command: ", app.get_name(), " ", command->get_name(),
                        " ", flag, " ...");
  }
  return absl::StrCat("unknown flag ", flag, "; ",
                      DidYouMean(flag, known, absl::StrCat("see ", app.get_name(), " --help")));
}

std::string UnknownCommand(const CLI::App& app, const std::string& name) {
  return absl::StrCat(
      "unknown command \"", name, "\"; ",
      DidYouMean(name, CommandNames(app), absl::StrCat("see ", app.get_name(), " --help")));
}

// CLI11's sentence in our words where its own are hard to read.
std::string Problem(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<CLI::App*> given = app.get_subcommands();
  const CLI::App& chosen = given.empty() ? app : *given.front();
  for (const CLI::App* level : {&app, &chosen}) {
    const std::vector<std::string> unknown = level->remaining();
    // Commands that pass their further arguments on say so.
    if (!unknown.empty() && !level->get_allow_extras()) {
      return UnknownArgument(app, *level, unknown.front());
    }
  }
  const std::string see_help = absl::StrCat("; see ", FullName(app, chosen), " --help");
  std::string what = absl::StrReplaceAll(error.what(), {{"\n", " "}});
  constexpr absl::string_view kConversion = "Could not convert: ";
  const size_t equals = what.find(" = ");
  if (absl::StartsWith(what, kConversion) && equals != std::string::npos) {
    return absl::StrCat(what.substr(kConversion.size(), equals - kConversion.size()), ": \"",
                        what.substr(equals + 3), "\" is not a value that it takes", see_help);
  }
  if (absl::EndsWith(what, " missing") && what.find(':') != std::string::npos) {
    return absl::StrCat(what.substr(0, what.find(':')), " needs a value", see_help);
  }
  return what;
}

}  // namespace

std::string UnknownArgument(const CLI::App& app, const CLI::App& level,
                            const std::string& argument) {
  const std::string see_help = absl::StrCat("see ", FullName(app, level), " --help");
  if (argument.size() > 1 && argument[0] == '-') {
    const std::string flag = argument.substr(0, argument.find('='));
    if (&level == &app) return MisplacedFlag(app, flag);
    return absl::StrCat("unknown flag ", flag, "; ", DidYouMean(flag, FlagNames(level), see_help));
  }
  if (&level == &app) return UnknownCommand(app, argument);
  return absl::StrCat("unexpected argument \"", argument,
                      "\"; text with spaces needs quotes around it, and ", see_help);
}

std::string HelpFooter(const ProgramText& text) {
  std::string footer;
  for (const HelpSection& section : text.sections) {
    absl::StrAppend(&footer, footer.empty() ? "" : "\n", section.title, ":\n");
    size_t width = 0;
    for (const HelpRow& row : section.rows) width = std::max(width, row.term.size());
    for (const HelpRow& row : section.rows) {
      const std::string space(width - row.term.size() + 2, ' ');
      absl::StrAppend(&footer, "  ", row.term, row.meaning.empty() ? "" : space, row.meaning, "\n");
    }
  }
  return footer;
}

void DescribeProgram(CLI::App& app, const ProgramText& text) {
  app.name(text.name);
  app.description(text.paragraph);
  app.footer(HelpFooter(text));
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_version_flag("--version", absl::StrCat(text.name, " ", text.version),
                       "Print the version and exit");
  AddManPageFlag(app, text);
}

int UsageError(const std::string& program, const std::string& problem) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), problem.c_str());
  return kUsageExitCode;
}

std::optional<int> ParseCommandLine(CLI::App& app, std::vector<std::string> args) {
  if (args.empty()) {
    std::cout << app.help() << std::flush;
    return UsageError(app.get_name(), "no command given; the commands are " +
                                          absl::StrJoin(CommandNames(app), ", "));
  }
  if (args.front() == "help") {  // help COMMAND is COMMAND --help
    args.erase(args.begin());
    args.resize(std::min<size_t>(args.size(), 1));
    const std::vector<std::string> known = CommandNames(app);
    if (!args.empty() && std::find(known.begin(), known.end(), args[0]) == known.end()) {
      return UsageError(app.get_name(), UnknownCommand(app, args[0]));
    }
    args.emplace_back("--help");
  }
  std::reverse(args.begin(), args.end());  // as CLI11 takes them
  try {
    app.parse(args);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return UsageError(app.get_name(), Problem(app, error));
  }
}

}  // namespace quire::cli
