// quire-bench: measures a running server (serve), the engine alone (throughput, latency) and a
// start (startup).

#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "tools/bench/commands.h"

namespace quire::bench {

int Fail(const std::string& message) {
  std::fprintf(stderr, "quire-bench: %s\n", message.c_str());
  return 1;
}

}  // namespace quire::bench

int main(int argc, char** argv) {
  using namespace quire::bench;  // NOLINT(google-build-using-namespace): the program is this
                                 // namespace
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // what was measured is seen, whatever comes after
  CLI::App app("Benchmarks of quire-server and its engine.");
  app.name("quire-bench");
  app.require_subcommand(1);
  const std::vector<std::pair<const char*, Command>> commands = {
      {"make-checkpoint", AddMakeCheckpoint(app)},
      {"serve", AddServe(app)},
      {"throughput", AddThroughput(app)},
      {"latency", AddLatency(app)},
      {"kernels", AddKernels(app)},
      {"timeline", AddTimeline(app)},
      {"startup", AddStartup(app)},
  };
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 64;
  }
  for (const auto& [name, run] : commands) {
    if (app.got_subcommand(name)) return run();
  }
  return 64;
}
