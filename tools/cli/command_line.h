// The command line of a program with commands (quire, quire-bench): parsing, --version, "help
// COMMAND", and one line for any error in it. Main thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/cli/program_text.h"

namespace CLI {
class App;
}

namespace quire::cli {

inline constexpr int kUsageExitCode = 64;

// Gives `app`, which has all its commands and flags, its name, footer, --version and the hidden
// --help-man. Call it once, before ParseCommandLine.
void DescribeProgram(CLI::App& app, const ProgramText& text);

// Parses `args` (without the program's name). Returns nothing if a command should run; else the
// exit code: 0 after --help and similar flags, 64 after an error. An error prints one line on
// standard error. The line names the unknown command or flag with the nearest known one, or the
// flag with the value that it does not take.
std::optional<int> ParseCommandLine(CLI::App& app, std::vector<std::string> args);

// The sentence about an argument that neither `app` nor its command `level` takes. It names the
// nearest known argument. For commands that look at such arguments themselves.
std::string UnknownArgument(const CLI::App& app, const CLI::App& level,
                            const std::string& argument);

// Prints "PROGRAM: problem" on standard error and returns 64.
int UsageError(const std::string& program, const std::string& problem);

}  // namespace quire::cli
