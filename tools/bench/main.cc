// quire-bench: measures a running server (serve, sweep) and its answers (quality), and compares
// what was measured (compare, report). It measures the engine by itself (throughput, latency,
// timeline), its operations (kernels), JSON schemas (constraints) and a start (startup).

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "server/base/version.h"
#include "tools/bench/commands.h"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/cli/command_line.h"

namespace quire::bench {

namespace {

cli::ProgramText Text() {
  return {
      .name = "quire-bench",
      .version = kVersion,
      .one_line = "measure a quire-server, its engine and its operations",
      .paragraph = "Benchmarks of quire-server and its engine.",
      .sections = {{"Examples",
                    {{"quire-bench serve --num-prompts 64 --request-rate 8", "a running server"},
                     {"quire-bench quality --dataset-path FILE", "what its answers are worth"},
                     {"quire-bench sweep --json sweep.json", "what it can bear"},
                     {"quire-bench report sweep.json --html sweep.html", "a page of it"},
                     {"quire-bench throughput --model FOLDER", "the engine alone, no server"},
                     {"quire-bench latency --shape qwen3-0.6b", "no model files: random weights"},
                     {"quire-bench constraints --schemas FILE --tokenizer FOLDER", "JSON schemas"},
                     {"quire-bench COMMAND --help", "a command's flags"}}}},
      .see_also = "quire-server(1), quire(1)"};
}

int Run(int argc, char** argv) {
  CLI::App app;
  const std::vector<std::pair<const char*, Command>> commands = {
      {"serve", AddServe(app)},     {"quality", AddQuality(app)},
      {"sweep", AddSweep(app)},     {"compare", AddCompare(app)},
      {"report", AddReport(app)},   {"throughput", AddThroughput(app)},
      {"latency", AddLatency(app)}, {"timeline", AddTimeline(app)},
      {"kernels", AddKernels(app)}, {"constraints", AddConstraints(app)},
      {"startup", AddStartup(app)}, {"make-checkpoint", AddMakeCheckpoint(app)},
  };
  cli::DescribeProgram(app, Text());
  const auto done = cli::ParseCommandLine(app, std::vector<std::string>(argv + 1, argv + argc));
  if (done) return *done;
  for (const auto& [name, run] : commands) {
    if (app.got_subcommand(name)) return run();
  }
  return kUsage;
}

}  // namespace

int Finish(const absl::Status& status) {
  const int code = status.ok() ? 0 : Fail(status);
  return Interrupted() && (code == 0 || code == kFailed) ? kInterruptedExit : code;
}

}  // namespace quire::bench

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what was measured is seen, whatever comes after
  quire::bench::WatchSignals();
  return quire::bench::Run(argc, argv);
}
