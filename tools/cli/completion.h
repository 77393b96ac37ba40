// Completion scripts for shells, made from the same declarations as --help. Pure; any thread.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace quire::cli {

// The shells a script can be made for, as a user names them.
const std::vector<std::string>& CompletionShells();

// The script for one of CompletionShells(); empty for any other. It completes the commands of
// `app`, their flags, and files after flags of type FILE. The script's first lines say how a shell
// loads it.
std::string CompletionScript(const CLI::App& app, const std::string& shell);

}  // namespace quire::cli
