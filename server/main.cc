// quire-server: parses the settings, starts the server, serves until a signal or a failure, drains.
// The main thread only waits; exit codes are those of server/exit_code.h.
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/exit_code.h"
#include "server/model_location.h"
#include "server/process_events.h"
#include "server/server.h"
#include "server/settings/settings_parser.h"
#include "server/version.h"

namespace quire {
namespace {

// After an engine failure the clients have this long to take their last message.
constexpr absl::Duration kFailureGrace = absl::Seconds(3);
// Taking everything down after the drain; longer means that something hangs.
constexpr absl::Duration kTeardownLimit = absl::Seconds(5);

[[noreturn]] void ExitNow(ExitCode code) {
  spdlog::default_logger()->flush();
  _exit(static_cast<int>(code));
}

int Fail(ExitCode code, const absl::Status& status) {
  PrintFailure(std::string(status.message()));
  return static_cast<int>(code);
}

void SetUpLog(const std::string& level) {
  auto logger = spdlog::stderr_logger_mt("quire");
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%l%$ %v");
  logger->set_level(spdlog::level::from_str(level));
  spdlog::set_default_logger(std::move(logger));
}

// The life of the process after its settings are known.
class Process {
 public:
  explicit Process(const Settings& settings) : settings_(settings) {}

  int Run() {
    absl::StatusOr<Listener> listener =
        Listener::Bind(settings_.host, static_cast<int>(settings_.port));
    if (!listener.ok()) {
      return Fail(
          absl::IsInvalidArgument(listener.status()) ? ExitCode::kUsage : ExitCode::kUnavailable,
          listener.status());
    }
    const absl::StatusOr<std::string> model_folder = FindModelFolder(settings_.model);
    if (!model_folder.ok()) return Fail(ExitCode::kModelFiles, model_folder.status());

    if (const absl::Status status = Start(*model_folder, *std::move(listener)); !status.ok()) {
      return Fail(StartFailureCode(status), status);
    }
    return Serve();
  }

 private:
  // Runs `work` on a thread of its own, so that this one still sees signals and failures; returns
  // what came first, kNews for the end of the work.
  ProcessEvents::Kind RunAside(std::function<void()> work, absl::Time deadline) {
    worker_ = std::thread([this, work = std::move(work)] {
      work();
      events_.Notify();
    });
    const ProcessEvents::Kind kind = events_.Wait(deadline);
    if (kind == ProcessEvents::Kind::kNews && !failure().has_value()) worker_.join();
    return kind;
  }

  absl::Status Start(const std::string& model_folder, Listener listener) {
    spdlog::info("quire-server {} loads {}", kVersion, model_folder);
    const absl::Time begin = absl::Now();
    absl::Status status;
    const auto kind = RunAside(
        [&] {
          auto server = Server::Start(settings_, model_folder, std::move(listener),
                                      [this](const absl::Status& failure) { OnFailure(failure); });
          status = server.status();
          if (server.ok()) server_ = *std::move(server);
        },
        absl::InfiniteFuture());
    if (kind == ProcessEvents::Kind::kSignal) {
      spdlog::info("stopped while loading");
      ExitNow(ExitCode::kOk);
    }
    if (failure().has_value()) EndAfterFailure();
    if (!status.ok()) return status;
    spdlog::info("memory:\n{}", server_->MemoryLedger());
    spdlog::info("ready on {}; started in {} ms", server_->Describe(),
                 absl::ToInt64Milliseconds(absl::Now() - begin));
    return absl::OkStatus();
  }

  int Serve() {
    events_.Wait();
    if (failure().has_value()) EndAfterFailure();
    spdlog::info("draining: running requests have {} s; a second signal ends them",
                 settings_.shutdown_timeout);
    server_->BeginDrain();
    const absl::Time deadline = absl::Now() + absl::Seconds(settings_.shutdown_timeout);
    const auto drained =
        RunAside([&] { server_->WaitUntilDrained(deadline); }, deadline + absl::Seconds(1));
    CheckInterrupted(drained);
    const auto ended = RunAside([&] { server_.reset(); }, absl::Now() + kTeardownLimit);
    CheckInterrupted(ended);
    spdlog::info("stopped");
    return static_cast<int>(ExitCode::kOk);
  }

  void CheckInterrupted(ProcessEvents::Kind kind) {
    if (failure().has_value()) EndAfterFailure();
    if (kind == ProcessEvents::Kind::kSignal) {
      PrintFailure("stopped by a second signal before all requests had finished");
      ExitNow(ExitCode::kInterrupted);
    }
    if (kind == ProcessEvents::Kind::kTimeout) {
      PrintFailure("the engine did not stop in time");
      ExitNow(ExitCode::kEngineFailure);
    }
  }

  // Engine's thread.
  void OnFailure(const absl::Status& failure) {
    {
      std::lock_guard lock(mutex_);
      failure_ = failure;
    }
    events_.Notify();
  }

  std::optional<absl::Status> failure() {
    std::lock_guard lock(mutex_);
    return failure_;
  }

  // No destructors: what failed may also hang.
  [[noreturn]] void EndAfterFailure() {
    PrintFailure(absl::StrCat("engine failure: ", failure()->message(),
                              "; restart the server, and look at the device if this repeats"));
    if (server_ != nullptr) {
      server_->BeginDrain();
      server_->WaitUntilDrained(absl::Now() + kFailureGrace);
    }
    ExitNow(ExitCode::kEngineFailure);
  }

  const Settings settings_;
  ProcessEvents events_;  // before any thread
  std::thread worker_;
  std::unique_ptr<Server> server_;
  std::mutex mutex_;
  std::optional<absl::Status> failure_;  // guarded by mutex_
};

int Main(const std::vector<std::string>& args) {
  const absl::StatusOr<CommandLine> command_line = ParseCommandLine(args);
  if (!command_line.ok()) return Fail(ExitCode::kUsage, command_line.status());
  if (!command_line->print_and_exit.empty()) {
    std::fputs(command_line->print_and_exit.c_str(), stdout);
    return static_cast<int>(ExitCode::kOk);
  }
  SetUpLog(command_line->settings.log_level);
  return Process(command_line->settings).Run();
}

}  // namespace
}  // namespace quire

int main(int argc, char** argv) {
  return quire::Main(std::vector<std::string>(argv + 1, argv + argc));
}
