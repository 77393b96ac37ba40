// quire-bench startup: how long a quire-server takes from process start to its first token, and
// what it costs when idle.

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
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
  std::string json_file;
  std::vector<std::string> server_flags;
};

struct StartupTimes {
  std::vector<double> listening_ms, first_token_ms;
  // As the server's log tells them, in their order: name, one length per start.
  std::vector<std::pair<std::string, std::vector<double>>> stage_ms;
  double idle_cpu_percent = 0;
  int64_t resident_bytes = 0;
};

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The stages of "... started in 0.85 s: program 0.031, device 0.310, ..." in a server's log.
void AddStages(const std::string& log, StartupTimes* times) {
  const std::vector<std::string> parts = absl::StrSplit(log, absl::MaxSplits("started in ", 1));
  if (parts.size() < 2) return;
  const std::string line = parts[1].substr(0, parts[1].find('\n'));
  size_t index = 0;
  for (const absl::string_view stage : absl::StrSplit(line.substr(line.find(": ") + 2), ", ")) {
    const std::vector<std::string> words = absl::StrSplit(stage, ' ');
    double seconds = 0;
    if (words.size() != 2 || !absl::SimpleAtod(words[1], &seconds)) continue;
    if (index == times->stage_ms.size()) times->stage_ms.push_back({words[0], {}});
    times->stage_ms[index++].second.push_back(1000 * seconds);
  }
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
  if (exit_code != 0) {
    return absl::InternalError(
        absl::StrCat("quire-server ended with exit code ", exit_code, ":\n", server->Log()));
  }
  AddStages(server->Log(), times);
  return absl::OkStatus();
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
  std::printf("%s\n", SummaryHeader("stage, ms").c_str());
  for (const auto& [name, lengths_ms] : times.stage_ms) {
    std::printf("%s\n", SummaryRow(name, Summarize(lengths_ms)).c_str());
  }
  std::printf("idle: %.2f %% of one core, %.1f MiB resident\n", times.idle_cpu_percent,
              static_cast<double>(times.resident_bytes) / (1 << 20));
  if (!flags.json_file.empty()) {
    nlohmann::ordered_json stages;
    for (const auto& [name, lengths_ms] : times.stage_ms) {
      stages[name] = ToJson(Summarize(lengths_ms));
    }
    const nlohmann::ordered_json json = {
        {"listening_ms", ToJson(Summarize(times.listening_ms))},
        {"first_token_ms", ToJson(Summarize(times.first_token_ms))},
        {"stage_ms", stages},
        {"idle_cpu_percent", times.idle_cpu_percent},
        {"resident_bytes", times.resident_bytes}};
    std::ofstream(flags.json_file) << json.dump(2) << "\n";
  }
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
  command->add_option("--json", flags->json_file, "Write the results to this file");
  command->allow_extras();
  return [flags, command] {
    flags->server_flags = command->remaining();
    return Startup(*flags);
  };
}

}  // namespace quire::bench
