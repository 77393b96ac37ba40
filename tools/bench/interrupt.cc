#include "tools/bench/interrupt.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "tools/bench/failure.h"

namespace quire::bench {

namespace {

// The process has one State, as its signals belong to the whole process.
struct State {
  std::atomic<bool> measuring = false;
  std::atomic<bool> interrupted = false;
  absl::Mutex mutex;
  std::vector<const ExitCleanup*> clean_ups ABSL_GUARDED_BY(mutex);
};

State& TheState() {
  // Never freed: the signals' thread may outlive main.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): signals are the process's
  static auto* const state = new State;
  return *state;
}

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  return signals;
}

[[noreturn]] void EndAtOnce() {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  for (const ExitCleanup* clean_up : state.clean_ups) clean_up->Run();
  std::fputs("\nquire-bench: interrupted\n", stderr);
  _exit(kInterruptedExit);
}

void HandleSignals() {
  State& state = TheState();
  const sigset_t signals = Signals();
  while (true) {
    int number = 0;
    if (sigwait(&signals, &number) != 0) continue;
    if (!state.measuring || state.interrupted.exchange(true)) EndAtOnce();
    std::fputs("\nquire-bench: interrupted; once more ends at once\n", stderr);
  }
}

}  // namespace

void WatchSignals() {
  const sigset_t signals = Signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  std::thread(HandleSignals).detach();
}

InterruptibleRun::InterruptibleRun() { TheState().measuring = true; }
InterruptibleRun::~InterruptibleRun() { TheState().measuring = false; }

bool Interrupted() { return TheState().interrupted; }

ExitCleanup::ExitCleanup(std::function<void()> clean_up) : clean_up_(std::move(clean_up)) {
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  state.clean_ups.push_back(this);
}

ExitCleanup::~ExitCleanup() {
  Run();  // while a signal would still run it, too: it may come in the middle
  State& state = TheState();
  absl::MutexLock lock(&state.mutex);
  state.clean_ups.erase(std::find(state.clean_ups.begin(), state.clean_ups.end(), this));
}

void ExitCleanup::Run() const {
  if (!is_kept_) clean_up_();
}

}  // namespace quire::bench
