// The text of a program about itself, beside its commands and flags. --help and the man page print
// the same words. Plain values.
#pragma once

#include <string>
#include <vector>

namespace quire::cli {

struct HelpRow {
  std::string term;
  std::string meaning;
};

struct HelpSection {
  std::string title;  // "Examples", "Environment", "Exit codes"
  std::vector<HelpRow> rows;
};

struct ProgramText {
  std::string name;       // "quire"
  std::string version;    // "0.1.0"
  std::string one_line;   // "talk to a quire-server"
  std::string paragraph;  // what it is for
  std::vector<HelpSection> sections;
  std::string see_also;  // "quire-server(1), quire-bench(1)"
};

// The sections as --help prints them after the flags.
std::string HelpFooter(const ProgramText& text);

}  // namespace quire::cli
