// The subcommands of `quire-bench`; each adds its flags and returns what runs it (exit code).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace quire::bench {

using Command = std::function<int()>;

Command AddMakeCheckpoint(CLI::App& app);
Command AddServe(CLI::App& app);
Command AddThroughput(CLI::App& app);
Command AddKernels(CLI::App& app);
Command AddLatency(CLI::App& app);
Command AddStartup(CLI::App& app);
Command AddTimeline(CLI::App& app);

// Prints "quire-bench: message" and returns exit code 1.
int Fail(const std::string& message);

}  // namespace quire::bench
