// quire-bench startup: how long a quire-server takes from process start to its first token, and
// what it costs when idle.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "kernels/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "tools/bench/command_line.h"
#include "tools/bench/commands.h"
#include "tools/bench/failure.h"
#include "tools/bench/interrupt.h"
#include "tools/bench/load/find_server.h"
#include "tools/bench/load/load.h"
#include "tools/bench/result_file.h"
#include "tools/bench/run_header.h"
#include "tools/bench/serve/server_process.h"
#include "tools/bench/shown_progress.h"
#include "tools/bench/statistics.h"

namespace quire::bench {

namespace {

using Clock = std::chrono::steady_clock;

struct StartupFlags {
  int32_t num_starts = 5;
  double idle_seconds = 3;
  double timeout_seconds = 600;
  std::optional<std::string> json_file;
  const CLI::App* command = nullptr;
};

struct Start {
  double listening_ms = 0, first_token_ms = 0;
  std::vector<std::pair<std::string, double>> stage_ms;  // as the server's log tells them
};

struct StartupTimes {
  std::vector<Start> starts;
  double idle_cpu_percent = 0;
  int64_t resident_bytes = 0;
};

double MsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// The stages of "... started in 0.85 s: program 0.031, device 0.310, ..." in a server's log.
std::vector<std::pair<std::string, double>> StagesOf(const std::string& log) {
  std::vector<std::pair<std::string, double>> stage_ms;
  const std::vector<std::string> parts = absl::StrSplit(log, absl::MaxSplits("started in ", 1));
  if (parts.size() < 2) return stage_ms;
  const std::string line = parts[1].substr(0, parts[1].find('\n'));
  for (const absl::string_view stage : absl::StrSplit(line.substr(line.find(": ") + 2), ", ")) {
    const std::vector<std::string> words = absl::StrSplit(stage, ' ');
    double seconds = 0;
    if (words.size() != 2 || !absl::SimpleAtod(words[1], &seconds)) continue;
    stage_ms.emplace_back(words[0], 1000 * seconds);
  }
  return stage_ms;
}

std::vector<double> SamplesOf(const StartupTimes& times, double Start::*member) {
  std::vector<double> samples(times.starts.size());
  std::transform(times.starts.begin(), times.starts.end(), samples.begin(),
                 [member](const Start& start) { return start.*member; });
  return samples;
}

// In the log's order: name, one length per start.
std::vector<std::pair<std::string, std::vector<double>>> StageSamples(const StartupTimes& times) {
  std::vector<std::pair<std::string, std::vector<double>>> samples;
  for (const Start& start : times.starts) {
    for (const auto& [name, ms] : start.stage_ms) {
      auto one = std::find_if(samples.begin(), samples.end(),
                              [&, &its_name = name](const auto& s) { return s.first == its_name; });
      if (one == samples.end()) one = samples.insert(one, {name, {}});
      one->second.push_back(ms);
    }
  }
  return samples;
}

// One start: times, then (for the last one) what idling costs, then a clean stop. Does nothing more
// once Interrupted().
absl::Status MeasureStart(const StartupFlags& flags, bool measure_idle, StartupTimes* times) {
  const Clock::time_point start = Clock::now();
  ASSIGN_OR_RETURN(const std::unique_ptr<ServerProcess> server,
                   ServerProcess::Start(flags.command->remaining()));
  RETURN_IF_ERROR(server->WaitUntilListening(flags.timeout_seconds));
  if (Interrupted()) return absl::OkStatus();
  const double listening_ms = MsSince(start);
  ASSIGN_OR_RETURN(const ServerAddress address, FindServer(server->target()));
  const std::vector<WorkItem> items = {{.prompt = {1, 2, 3, 4}, .output_len = 1}};
  const double asked_ms = MsSince(start);
  const LoadResult result =
      RunLoad(address, *MakeLoadBackend("quire", {}), items, {0.0}, {}, /*progress=*/nullptr);
  if (Interrupted()) return absl::OkStatus();
  const RequestRecord& record = result.records[0];
  if (record.outcome != Outcome::kCompleted) {
    return WithExitCode(kUnavailable, absl::UnavailableError(absl::StrCat(
                                          "the server gave no token: ", record.problem)));
  }
  times->starts.push_back({.listening_ms = listening_ms,
                           .first_token_ms = asked_ms + 1000 * record.first_token,
                           .stage_ms = {}});
  if (measure_idle && flags.idle_seconds > 0) {
    const double before = server->CpuSeconds();
    std::this_thread::sleep_for(std::chrono::duration<double>(flags.idle_seconds));
    times->idle_cpu_percent = 100.0 * (server->CpuSeconds() - before) / flags.idle_seconds;
    times->resident_bytes = server->ResidentBytes();
  }
  const int exit_code = server->Stop();
  if (exit_code != 0 && !Interrupted()) {
    return absl::InternalError(
        absl::StrCat("quire-server ended with exit code ", exit_code, ": ", server->LastLine()));
  }
  times->starts.back().stage_ms = StagesOf(server->Log());
  return absl::OkStatus();
}

void PrintResult(const StartupTimes& times) {
  std::printf(
      "%s\n%s\n%s\n", SummaryHeader("process start, ms, until").c_str(),
      SummaryRow("it listens", Distribution(SamplesOf(times, &Start::listening_ms))).c_str(),
      SummaryRow("the first token", Distribution(SamplesOf(times, &Start::first_token_ms)))
          .c_str());
  std::printf("%s\n", SummaryHeader("stage, ms").c_str());
  for (const auto& [name, lengths_ms] : StageSamples(times)) {
    std::printf("%s\n", SummaryRow(name, Distribution(lengths_ms)).c_str());
  }
  if (times.resident_bytes > 0) {
    std::printf("idle: %.2f %% of one core, %.1f MiB resident\n", times.idle_cpu_percent,
                static_cast<double>(times.resident_bytes) / (1 << 20));
  }
}

nlohmann::ordered_json ToJson(const StartupFlags& flags, const StartupTimes& times) {
  nlohmann::ordered_json stages = nlohmann::ordered_json::object();
  for (const auto& [name, lengths_ms] : StageSamples(times)) {
    stages[name] = ToJson(Distribution(lengths_ms));
  }
  nlohmann::ordered_json json = RunJson("startup");
  json["server_flags"] = flags.command->remaining();
  json["interrupted"] = Interrupted();
  json["listening_ms"] = ToJson(Distribution(SamplesOf(times, &Start::listening_ms)));
  json["first_token_ms"] = ToJson(Distribution(SamplesOf(times, &Start::first_token_ms)));
  json["stage_ms"] = stages;
  json["starts"] = nlohmann::ordered_json::array();
  for (const Start& start : times.starts) {
    nlohmann::ordered_json one = {{"listening_ms", start.listening_ms},
                                  {"first_token_ms", start.first_token_ms},
                                  {"stage_ms", nlohmann::ordered_json::object()}};
    for (const auto& [name, ms] : start.stage_ms) one["stage_ms"][name] = ms;
    json["starts"].push_back(std::move(one));
  }
  json["idle_cpu_percent"] = times.idle_cpu_percent;
  json["resident_bytes"] = times.resident_bytes;
  return json;
}

absl::Status MeasureStarts(const StartupFlags& flags, StartupTimes* times) {
  const InterruptibleRun interruptible;
  ShownProgress progress;
  ProgressStage stage(progress.get(), "starts", flags.num_starts, ProgressUnit::kItems);
  for (int i = 0; i < flags.num_starts && !Interrupted(); ++i) {
    RETURN_IF_ERROR(MeasureStart(flags, i + 1 == flags.num_starts, times));
    stage.Add(1);
  }
  return absl::OkStatus();
}

absl::Status Startup(const StartupFlags& flags) {
  RETURN_IF_ERROR(ParseServerFlags(*flags.command).status());
  for (const std::string& argument : flags.command->remaining()) {
    const std::string flag = argument.substr(0, argument.find('='));
    if (flag == "--host" || flag == "--port") {
      return UsageError(absl::StrCat(flag, ": startup chooses it; leave it out"));
    }
  }
  ASSIGN_OR_RETURN(const auto json_file, OpenResultFile("--json", flags.json_file));
  const std::string server_flags = absl::StrJoin(flags.command->remaining(), " ");
  Print({.command = "startup",
         .what = absl::StrFormat("%d starts of quire-server to its first token, one request of 4 + "
                                 "1 tokens, greedy; then %g s idle",
                                 flags.num_starts, flags.idle_seconds),
         .lines = {{"server", server_flags.empty() ? "without flags: the small bundled model"
                                                   : server_flags}}});
  StartupTimes times;
  RETURN_IF_ERROR(MeasureStarts(flags, &times));
  if (Interrupted()) {
    std::printf("interrupted; results so far, %zu of %d starts:\n", times.starts.size(),
                flags.num_starts);
  }
  PrintResult(times);
  return WriteJson(ToJson(flags, times), json_file.get());
}

}  // namespace

Command AddStartup(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "startup", "Starts quire-server: process start to first token, and what it costs when idle");
  command->footer(
      "Examples:\n"
      "  quire-bench startup --num-starts 3\n"
      "  quire-bench startup --model FOLDER --num-starts 1 --json start.json\n"
      "  quire-bench report start.json --html start.html");
  const auto flags = std::make_shared<StartupFlags>();
  FlagGroup add(*command);
  add.Count("--num-starts", &flags->num_starts, 1, 10000, "How often it is started")
      ->capture_default_str();
  add.Real("--idle-seconds", &flags->idle_seconds, 0, 3600, "How long the last one is left idle")
      ->type_name("SECONDS")
      ->capture_default_str();
  add.Real("--timeout", &flags->timeout_seconds, 0.1, 86400, "Maximum time of one start")
      ->type_name("SECONDS")
      ->capture_default_str();
  add.Json(&flags->json_file);
  AcceptServerFlags(*command);
  flags->command = command;
  return [flags] { return Finish(Startup(*flags)); };
}

}  // namespace quire::bench
