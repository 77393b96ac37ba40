// The subcommands of `quire-bench`. Each adds its flags and returns the function that runs it,
// whose result is the exit code.
#pragma once

#include <functional>

#include "absl/status/status.h"

namespace CLI {
class App;
}

namespace quire::bench {

using Command = std::function<int()>;

Command AddConstraints(CLI::App& app);
Command AddMakeCheckpoint(CLI::App& app);
Command AddQuality(CLI::App& app);
Command AddSweep(CLI::App& app);
Command AddCompare(CLI::App& app);
Command AddReport(CLI::App& app);
Command AddServe(CLI::App& app);
Command AddThroughput(CLI::App& app);
Command AddKernels(CLI::App& app);
Command AddLatency(CLI::App& app);
Command AddStartup(CLI::App& app);
Command AddTimeline(CLI::App& app);

// The exit code of a command that ended with `status`, which is printed if it is an error; 130 for
// a run that was interrupted.
int Finish(const absl::Status& status);

}  // namespace quire::bench
