#include "server/start/run_server.h"

#include <spdlog/spdlog.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <future>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "kernels/backend.h"
#include "kernels/base/clock.h"
#include "kernels/base/progress.h"
#include "server/base/exit_code.h"
#include "server/base/version.h"
#include "server/observe/log/log_setup.h"
#include "server/observe/log/log_writer.h"
#include "server/start/address_file.h"
#include "server/start/capacity_text.h"
#include "server/start/health_check.h"
#include "server/start/model_location.h"
#include "server/start/process_events.h"
#include "server/start/progress_printer.h"
#include "server/start/run_plan.h"
#include "server/start/security.h"
#include "server/start/settings/engine_settings.h"
#include "server/start/settings/settings_parser.h"

namespace quire {
namespace {

// After an engine failure the clients have this long to take their last message, of which the
// delivery of ends may take the second.
constexpr absl::Duration kFailureGrace = absl::Seconds(2);
constexpr absl::Duration kFailureDelivery = absl::Milliseconds(400);

[[noreturn]] void ExitNow(ExitCode code) {
  FlushLog();
  _exit(static_cast<int>(code));
}

int Fail(ExitCode code, const absl::Status& status) {
  PrintFailure(std::string(status.message()));
  return static_cast<int>(code);
}

// A variable is easily forgotten, unlike a flag.
void LogVariables(const CommandLine& command_line) {
  std::vector<std::string> variables;
  for (const auto& [name, place] : command_line.places) {
    if (absl::StartsWith(place, "QUIRE_")) variables.push_back(place);
  }
  if (!variables.empty()) {
    spdlog::info("settings from the environment: {}", absl::StrJoin(variables, ", "));
  }
}

// Time since this process was started, in steps of the kernel's clock tick (10 ms); 0 without
// /proc.
absl::Duration ProcessAge() {
  std::ifstream file("/proc/self/stat");
  if (!file) return absl::ZeroDuration();
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  // Field 22 counts ticks since boot; field 2, a name, ends with the last ')'.
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string skipped;
  for (int i = 3; i < 22; ++i) fields >> skipped;
  double start_ticks = 0;
  fields >> start_ticks;
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::DurationFromTimespec(now) -
         absl::Seconds(start_ticks / static_cast<double>(sysconf(_SC_CLK_TCK)));
}

// The life of the process after its settings are known.
class Process {
 public:
  Process(const CommandLine& command_line, BackendOpener open_backend,
          absl::Duration teardown_limit)
      : command_line_(command_line),
        open_backend_(std::move(open_backend)),
        teardown_limit_(teardown_limit) {}

  int Run() {
    stages_.End("program");
    const absl::Status fits = CheckDevice(command_line_, ServingDevice(settings_));
    if (!fits.ok()) return Fail(ExitCode::kUsage, fits);
    stages_.End("driver");
    SetUpLog(settings_.log_level, log_format_);
    for (const std::string& warning : command_line_.warnings) spdlog::warn("{}", warning);
    LogVariables(command_line_);
    absl::StatusOr<std::unique_ptr<Security>> security = Security::Open(settings_);
    if (!security.ok()) {
      return Fail(
          absl::IsUnavailable(security.status()) ? ExitCode::kUnavailable : ExitCode::kUsage,
          Placed(security.status()));
    }
    security_ = *std::move(security);
    for (const std::string& warning : SecurityWarnings(settings_)) spdlog::warn("{}", warning);
    absl::StatusOr<Listener> listener =
        Listener::Bind(settings_.host, static_cast<int>(settings_.port));
    if (!listener.ok()) {
      return Fail(
          absl::IsInvalidArgument(listener.status()) ? ExitCode::kUsage : ExitCode::kUnavailable,
          Placed(listener.status()));
    }
    TellAddress(listener->address());
    absl::StatusOr<std::string> model_folder = absl::UnknownError("");
    absl::Status started;
    {
      const ProgressPrinter printer(
          progress_, [](const std::string& line) { spdlog::info("{}", line); },
          [](const std::string& bar) {
            StandardError().Write(bar, LogWriter::Importance::kPicture);
          });
      RunBeforeServing(
          [&] { model_folder = FindModelFolder(settings_, ServingNeeds(settings_), &progress_); });
      if (model_folder.ok()) started = Start(*model_folder, *std::move(listener));
    }
    if (!model_folder.ok()) {
      return Fail(ModelLocationFailureCode(model_folder.status()), Placed(model_folder.status()));
    }
    if (!started.ok()) return Fail(StartFailureCode(started), Placed(started));
    return Serve();
  }

 private:
  // For what runs beside the server; serving does without, as where nothing can be written.
  void TellAddress(const std::string& address) const {
    if (settings_.address_file.empty()) return;
    const absl::Status written = WriteAddressFile(settings_.address_file, address);
    if (!written.ok()) spdlog::warn("{}", std::string(Placed(written).message()));
  }

  // Warns of what works, but not as somebody may expect who is new to Quire.
  void SayWhatMaySurprise() const {
    if (settings_.model.empty()) {
      spdlog::warn(
          "no model was named: serving the bundled toy of 7 million parameters, which knows small "
          "sums and words; name a model with --model FOLDER or --model ORG/NAME");
    }
    if (settings_.device == "auto" && !CudaAvailable() && access("/dev/nvidia0", F_OK) == 0) {
      spdlog::warn(BuiltWithCuda()
                       ? "this machine's GPU cannot be used, so the CPU is: check its driver "
                         "with nvidia-smi, and CUDA_VISIBLE_DEVICES"
                       : "this machine has a GPU, but this build is for the CPU alone: build with "
                         "tools/quickstart --cuda");
    }
  }

  // A failure of the start with the places of the settings that it names.
  absl::Status Placed(const absl::Status& status) const {
    return absl::Status(status.code(), WithPlaces(command_line_, std::string(status.message())));
  }

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

  // A stage of the start, which a signal ends at once, and the process with it.
  void RunBeforeServing(std::function<void()> work) {
    if (RunAside(std::move(work), absl::InfiniteFuture()) == ProcessEvents::Kind::kSignal) {
      spdlog::info("stopped while loading");
      ExitNow(ExitCode::kOk);
    }
    if (failure().has_value()) EndAfterFailure();
  }

  absl::Status Start(const std::string& model_folder, Listener listener) {
    spdlog::info("quire-server {} loads {}", kVersion, model_folder);
    SayWhatMaySurprise();
    stages_.End("model folder");
    absl::Status status;
    RunBeforeServing([&] {
      auto server =
          Server::Start(settings_, model_folder, std::move(listener), open_backend_, &progress_,
                        *security_, [this](const absl::Status& failure) { OnFailure(failure); });
      status = server.status();
      if (server.ok()) server_ = *std::move(server);
    });
    if (!status.ok()) return status;
    const MemoryLedger& memory = server_->memory_ledger();
    LogMembers(log_format_, absl::StrCat("memory:\n", memory.ToString()), MemoryMembers(memory));
    serving_ = true;
    stages_.End(server_->start_stages());
    spdlog::info("ready on {}; started in {}", server_->Describe(), stages_.ToString());
    return absl::OkStatus();
  }

  int Serve() {
    events_.Wait();
    if (failure().has_value()) EndAfterFailure();
    spdlog::info("draining: running requests have {} s; a second signal ends them",
                 settings_.shutdown_timeout);
    server_->BeginDrain();
    const absl::Time deadline = MonotonicNow() + absl::Seconds(settings_.shutdown_timeout);
    const auto drained =
        RunAside([&] { server_->WaitUntilDrained(deadline); }, deadline + absl::Seconds(1));
    CheckInterrupted(drained);
    serving_ = false;
    ending_ = true;
    // A step that nobody waits for any more may still run, for long on a slow CPU.
    const auto ended = RunAside(
        [&] {
          server_.reset();
          security_.reset();
        },
        std::max(MonotonicNow(), deadline) + teardown_limit_);
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

  // The main thread, while it waits for other events.
  void OnHangup() {
    if (ending_) {
      spdlog::info("SIGHUP: nothing is read again, for the server ends");
    } else if (security_ != nullptr) {
      security_->Reload();
    }
  }

  // A thread of the engine's.
  void OnFailure(const absl::Status& failure) {
    {
      absl::MutexLock lock(&mutex_);
      failure_ = failure;
    }
    events_.Notify();
  }

  std::optional<absl::Status> failure() {
    absl::MutexLock lock(&mutex_);
    return failure_;
  }

  // No destructors, and clients are told from a thread of its own: what failed may also hang.
  [[noreturn]] void EndAfterFailure() {
    const std::string reason(failure()->message());
    PrintFailure(absl::StrCat("engine failure: ", reason,
                              "; restart the server, and look at the device if this repeats"));
    if (serving_) {
      std::promise<void> told;
      std::thread([this, &reason, &told] {
        server_->SetDead();
        server_->BeginDrain();
        server_->EndStreams(absl::UnavailableError(
            absl::StrCat("engine failure: ", reason, "; retry on another server")));
        server_->WaitUntilDrained(MonotonicNow() + kFailureGrace - kFailureDelivery);
        server_->FinishCalls(MonotonicNow() + kFailureDelivery);
        told.set_value();
      }).detach();
      told.get_future().wait_for(absl::ToChronoNanoseconds(kFailureGrace));
    }
    ExitNow(ExitCode::kEngineFailure);
  }

  const CommandLine command_line_;
  const Settings& settings_ = command_line_.settings;
  const LogFormat log_format_ =
      settings_.log_format == "json" ? LogFormat::kJson : LogFormat::kText;
  const BackendOpener open_backend_;
  const absl::Duration teardown_limit_;
  StartClock stages_{MonotonicNow() - ProcessAge()};
  // Before the device is asked for, whose driver starts threads: a signal must not reach those.
  ProcessEvents events_{[this] { OnHangup(); }};
  std::unique_ptr<Security> security_;  // outlives the server
  Progress progress_;
  std::thread worker_;
  std::unique_ptr<Server> server_;
  bool ending_ = false;   // worker_ destroys security_
  bool serving_ = false;  // server_ is there, and worker_ neither makes nor destroys it
  absl::Mutex mutex_;
  std::optional<absl::Status> failure_ ABSL_GUARDED_BY(mutex_);
};

// Returns an exit code.
int Run(const std::vector<std::string>& args, BackendOpener open_backend,
        absl::Duration teardown_limit) {
  const absl::StatusOr<CommandLine> command_line = ParseCommandLine(args, ProcessEnvironment());
  if (!command_line.ok()) return Fail(ExitCode::kUsage, command_line.status());
  if (!command_line->print_and_exit.empty()) {
    std::fputs(command_line->print_and_exit.c_str(), stdout);
    return static_cast<int>(ExitCode::kOk);
  }
  if (command_line->checks_health) return CheckHealth(command_line->settings);
  if (command_line->plan.has_value()) return RunPlan(*command_line, open_backend);
  return Process(*command_line, std::move(open_backend), teardown_limit).Run();
}

}  // namespace

int RunServer(const std::vector<std::string>& args, BackendOpener open_backend,
              absl::Duration teardown_limit) {
  SpeakLastWordsThroughLog();
  const int code = Run(args, std::move(open_backend), teardown_limit);
  FlushLog();
  return code;
}

}  // namespace quire
