// The subcommands of `quire`. Each adds its flags to the command line and returns the function that
// runs it, whose result is the process's exit code.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace quire::client {

using Command = std::function<int()>;

Command AddGenerate(CLI::App& app);
Command AddChat(CLI::App& app);
Command AddTokenize(CLI::App& app);
Command AddHealth(CLI::App& app);
Command AddInfo(CLI::App& app);
Command AddAbort(CLI::App& app);
Command AddFlush(CLI::App& app);
Command AddCompletion(CLI::App& app);

}  // namespace quire::client
