// quire health: exit code 0 when the server serves; what a container's health check runs.

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "tools/client/commands.h"
#include "tools/client/health_client.h"
#include "tools/client/rpc.h"

namespace quire::client {

namespace {

struct HealthFlags {
  std::string target = kDefaultTarget;
  std::string service;
  double timeout_seconds = 5;
  double wait_seconds = 0;
};

int Health(const HealthFlags& flags) {
  const auto channel = Connect(flags.target);
  const bool wait = flags.wait_seconds > 0;
  const auto give_up = std::chrono::steady_clock::now() +
                       std::chrono::milliseconds(static_cast<int64_t>(flags.wait_seconds * 1000));
  while (true) {
    const HealthResult result =
        CheckHealth(*channel, flags.service, wait ? flags.wait_seconds : flags.timeout_seconds,
                    /*wait_for_ready=*/wait);
    if (result.serving) {
      std::printf("SERVING\n");
      return kOk;
    }
    if (std::chrono::steady_clock::now() >= give_up) {
      std::fprintf(stderr, "quire: %s is not serving: %s\n", flags.target.c_str(),
                   result.reason.c_str());
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
  command->add_option("--target", flags->target, "HOST:PORT of the server")->capture_default_str();
  command->add_option("--service", flags->service,
                      "Service to ask for (default: the whole server)");
  command->add_option("--timeout", flags->timeout_seconds, "Seconds for one call")
      ->capture_default_str();
  command->add_option("--wait", flags->wait_seconds, "Keep asking for up to so many seconds");
  return [flags] { return Health(*flags); };
}

}  // namespace quire::client
