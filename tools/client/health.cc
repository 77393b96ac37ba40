// quire health: exit code 0 when the server serves; what a container's health check runs.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "CLI/CLI.hpp"
#include "nlohmann/json.hpp"
#include "tools/client/commands.h"
#include "tools/client/exit_codes.h"
#include "tools/client/failure.h"
#include "tools/client/inference_client.h"
#include "tools/client/output/json_output.h"
#include "tools/client/target.h"
#include "tools/client/timeout_flag.h"

namespace quire::client {

namespace {

constexpr double kDefaultTimeoutSeconds = 5;

struct HealthFlags {
  std::string target, service;
  double timeout_seconds = kDefaultTimeoutSeconds;
  double wait_seconds = 0;
  bool json = false;
};

void PrintAnswer(const HealthFlags& flags, const std::string& answer) {
  if (flags.json) {
    PrintJson({{"status", answer}});
  } else {
    std::printf("%s\n", answer.c_str());
  }
}

int RunHealth(const HealthFlags& flags) {
  using Clock = std::chrono::steady_clock;
  InferenceClient client(flags.target);
  const bool wait = flags.wait_seconds > 0;
  const auto give_up =
      Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(flags.wait_seconds * 1000));
  while (true) {
    const double left = std::chrono::duration<double>(give_up - Clock::now()).count();
    double timeout = flags.timeout_seconds;
    if (wait) timeout = std::max(0.05, timeout > 0 ? std::min(timeout, left) : left);
    const absl::StatusOr<Health> health =
        client.CheckHealth(flags.service, timeout, /*wait_for_ready=*/wait);
    if (health.ok() && health->serving) {
      PrintAnswer(flags, health->answer);
      return kOk;
    }
    if (!wait || Clock::now() >= give_up) {
      if (health.ok()) PrintAnswer(flags, health->answer);
      const std::string reason = health.ok() ? flags.target + " is starting, draining or has failed"
                                             : DescribeFailure(health.status(), flags.target);
      std::fprintf(stderr, "quire: not serving: %s\n", reason.c_str());
      return kNotServing;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace

Command AddHealth(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("health", "Exit code 0 if the server serves, 69 if it does not");
  const auto flags = std::make_shared<HealthFlags>();
  AddTargetFlag(*command, &flags->target);
  command->add_option("--service", flags->service,
                      "Service to ask for (default: the whole server)");
  AddTimeoutFlag(*command, "--timeout", "Seconds for one call; 0 = no limit",
                 &flags->timeout_seconds);
  AddTimeoutFlag(*command, "--wait", "Keep asking for up to so many seconds; 0 = ask once",
                 &flags->wait_seconds);
  command->add_flag("--json", flags->json, "Print one JSON object");
  return [flags] { return RunHealth(*flags); };
}

}  // namespace quire::client
