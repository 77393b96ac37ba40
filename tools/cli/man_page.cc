#include "tools/cli/man_page.h"

#include <cstdlib>
#include <ctime>
#include <iostream>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace quire::cli {

namespace {

// Text that roff prints as it stands.
std::string Escape(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const bool line_start = escaped.empty() || escaped.back() == '\n';
    if (line_start && (c == '.' || c == '\'')) escaped += "\\&";
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";  // a hyphen could not be copied into a shell
    } else if (c == '\'') {
      escaped += "\\(aq";
    } else if (c == '"') {
      escaped += "\\(dq";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

// A paragraph, in lines that roff's checkers do not find too long.
std::string Paragraph(const std::string& text) {
  constexpr size_t kWidth = 70;
  std::string lines;
  size_t line_size = 0;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    const bool wrap = line_size > 0 && line_size + 1 + word.size() > kWidth;
    absl::StrAppend(&lines, lines.empty() ? "" : wrap ? "\n" : " ", word);
    line_size = wrap ? word.size() : line_size + 1 + word.size();
  }
  return Escape(lines);
}

std::string Bold(std::string_view text) { return absl::StrCat("\\fB", Escape(text), "\\fR"); }
std::string Italic(std::string_view text) { return absl::StrCat("\\fI", Escape(text), "\\fR"); }

// "CLI::Option" as a man page shows it: "-n, --n INT".
std::string OptionTerm(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back(Bold("-" + name));
  for (const std::string& name : option.get_lnames()) names.push_back(Bold("--" + name));
  if (names.empty()) return Italic(absl::AsciiStrToUpper(option.get_name()));
  std::string term = absl::StrJoin(names, ", ");
  const std::string type = option.get_type_name();
  const bool takes_value = option.get_items_expected_max() > 0;
  if (takes_value && !type.empty()) absl::StrAppend(&term, " ", Italic(type));
  return term;
}

// With `show_groups`, each group of flags but the first under its name.
void AppendOptions(const CLI::App& app, bool show_groups, std::string* page) {
  std::string group = "Options";  // CLI11's name for flags without one
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_group().empty()) continue;  // hidden
    if (show_groups && option->get_group() != group) {
      group = option->get_group();
      absl::StrAppend(page, ".SS ", Escape(group), "\n");
    }
    std::string text = option->get_description();
    if (!option->get_default_str().empty()) {
      absl::StrAppend(&text, " (default: ", option->get_default_str(), ")");
    }
    if (!option->get_envname().empty()) {
      absl::StrAppend(&text, " (environment: ", option->get_envname(), ")");
    }
    absl::StrAppend(page, ".TP\n", OptionTerm(*option), "\n", Paragraph(text), "\n");
  }
}

std::string PageDate() {
  const char* epoch = std::getenv("SOURCE_DATE_EPOCH");  // NOLINT(concurrency-mt-unsafe)
  int64_t seconds = 0;
  if (epoch == nullptr || !absl::SimpleAtoi(epoch, &seconds)) seconds = std::time(nullptr);
  const auto time = static_cast<std::time_t>(seconds);
  std::tm utc = {};
  gmtime_r(&time, &utc);
  char date[32] = "";
  (void)std::strftime(date, sizeof(date), "%Y-%m-%d", &utc);
  return date;
}

}  // namespace

std::string ManPage(const CLI::App& app, const ProgramText& text) {
  std::string page;
  absl::StrAppend(&page, ".TH ", absl::AsciiStrToUpper(text.name), " 1 \"", PageDate(),
                  "\" \"Quire ", text.version, "\" \"User Commands\"\n");
  absl::StrAppend(&page, ".SH NAME\n", Escape(text.name), " \\- ", Escape(text.one_line), "\n");
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  absl::StrAppend(&page, ".SH SYNOPSIS\n", Bold(text.name), " ",
                  commands.empty() ? "" : absl::StrCat(Italic("COMMAND"), " "), "[",
                  Italic("OPTION"), "]...\n");
  absl::StrAppend(&page, ".SH DESCRIPTION\n", Paragraph(text.paragraph), "\n");
  if (!commands.empty()) {
    absl::StrAppend(&page, ".SH COMMANDS\n");
    for (const CLI::App* command : commands) {
      absl::StrAppend(&page, ".SS ", Escape(text.name), " ", Escape(command->get_name()), "\n",
                      Paragraph(command->get_description()), ".\n");
      AppendOptions(*command, /*show_groups=*/false, &page);
    }
  }
  absl::StrAppend(&page, ".SH OPTIONS\n");
  AppendOptions(app, /*show_groups=*/commands.empty(), &page);
  for (const HelpSection& section : text.sections) {
    absl::StrAppend(&page, ".SH ", Escape(absl::AsciiStrToUpper(section.title)), "\n");
    for (const HelpRow& row : section.rows) {
      absl::StrAppend(&page, ".TP\n", Bold(row.term), "\n", Paragraph(row.meaning), "\n");
    }
  }
  if (!text.see_also.empty()) {
    absl::StrAppend(&page, ".SH SEE ALSO\n", Escape(text.see_also), "\n");
  }
  return page;
}

void AddManPageFlag(CLI::App& app, const ProgramText& text) {
  app.add_flag_callback(
         "--help-man",
         [&app, text] {
           std::cout << ManPage(app, text);
           throw CLI::Success();  // CLI11's way to end the parse here
         },
         "Print the man page and exit")
      ->group("");
}

}  // namespace quire::cli
