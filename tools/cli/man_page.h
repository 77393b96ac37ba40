// A man page from the declarations that --help is made of. Any thread.
#pragma once

#include <string>

#include "tools/cli/program_text.h"

namespace CLI {
class App;
}

namespace quire::cli {

// roff with the man macros. The date in its foot is SOURCE_DATE_EPOCH's where that is set, so that
// packages can be made twice with the same bytes, else today's.
std::string ManPage(const CLI::App& app, const ProgramText& text);

// Adds the hidden flag --help-man, which prints the page and ends the parse as --help does. `app`
// must live as long as it parses.
void AddManPageFlag(CLI::App& app, const ProgramText& text);

}  // namespace quire::cli
