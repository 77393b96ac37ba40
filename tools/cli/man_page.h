// A man page, made from the same declarations as --help. Any thread.
#pragma once

#include <string>

#include "tools/cli/program_text.h"

namespace CLI {
class App;
}

namespace quire::cli {

// roff with the man macros. If SOURCE_DATE_EPOCH is set, the date in the page's foot comes from it,
// so that a package that is made twice has the same bytes. Otherwise it is today's date.
std::string ManPage(const CLI::App& app, const ProgramText& text);

// Adds the hidden flag --help-man, which prints the page and ends the parse as --help does. `app`
// must live as long as it parses.
void AddManPageFlag(CLI::App& app, const ProgramText& text);

}  // namespace quire::cli
