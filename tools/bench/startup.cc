// quire-bench startup: how long a quire-server takes from process start to its first token, and
// what it costs when idle.

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tools/bench/commands.h"
#include "tools/bench/load.h"
#include "tools/bench/server_process.h"
#include "tools/bench/statistics.h"
#include "tools/client/rpc.h"

namespace quire::bench {

namespace {

struct StartupFlags {
  int32_t num_starts = 5;
  double idle_seconds = 3;
  double timeout_seconds = 600;
  std::vector<std::string> server_flags;
};

struct StartupTimes {
  std::vector<double> listening_ms, first_token_ms;
  double idle_cpu_percent = 0;
  int64_t resident_bytes = 0;
};

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// One start: times, then (for the last one) what idling costs, then a clean stop.
absl::Status MeasureStart(const StartupFlags& flags, bool measure_idle, StartupTimes* times) {
  const Clock::time_point start = Clock::now();
  absl::StatusOr<ServerProcess> server = ServerProcess::Start(flags.server_flags);
  if (!server.ok()) return server.status();
  if (absl::Status status = server->WaitUntilListening(flags.timeout_seconds); !status.ok()) {
    return status;
  }
  times->listening_ms.push_back(MsSince(start));
  const auto stub = v1::Inference::NewStub(client::Connect(server->target()));
  const std::vector<WorkItem> items = {{.prompt = {1, 2, 3, 4}, .output_len = 1}};
  const auto records = RunLoad(*stub, items, {}, [](int64_t) {});
  if (!records[0].status.ok()) return absl::UnavailableError(records[0].status.error_message());
  times->first_token_ms.push_back(
      std::chrono::duration<double, std::milli>(records[0].token_times.at(0) - start).count());
  if (measure_idle) {
    const double before = server->CpuSeconds();
    std::this_thread::sleep_for(std::chrono::duration<double>(flags.idle_seconds));
    times->idle_cpu_percent = 100.0 * (server->CpuSeconds() - before) / flags.idle_seconds;
    times->resident_bytes = server->ResidentBytes();
  }
  const int exit_code = server->Stop();
  if (exit_code == 0) return absl::OkStatus();
  return absl::InternalError("quire-server ended with exit code " + std::to_string(exit_code));
}

int Startup(const StartupFlags& flags) {
  StartupTimes times;
  for (int i = 0; i < flags.num_starts; ++i) {
    const absl::Status status = MeasureStart(flags, i + 1 == flags.num_starts, &times);
    if (!status.ok()) return Fail(std::string(status.message()));
  }
  std::printf("%s\n%s\n%s\n", SummaryHeader("process start, ms, until").c_str(),
              SummaryRow("it listens", Summarize(times.listening_ms)).c_str(),
              SummaryRow("the first token", Summarize(times.first_token_ms)).c_str());
  std::printf("idle: %.2f %% of one core, %.1f MiB resident\n", times.idle_cpu_percent,
              static_cast<double>(times.resident_bytes) / (1 << 20));
  return 0;
}

}  // namespace

Command AddStartup(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "startup", "Process start to first token, and idle cost; further flags are quire-server's");
  const auto flags = std::make_shared<StartupFlags>();
  command->add_option("--num-starts", flags->num_starts)->capture_default_str();
  command->add_option("--idle-seconds", flags->idle_seconds)->capture_default_str();
  command->add_option("--timeout", flags->timeout_seconds, "Seconds to wait for one start")
      ->capture_default_str();
  command->allow_extras();
  return [flags, command] {
    flags->server_flags = command->remaining();
    return Startup(*flags);
  };
}

}  // namespace quire::bench
