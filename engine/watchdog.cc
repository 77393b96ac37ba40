#include "engine/watchdog.h"

#include <pthread.h>

#include <chrono>
#include <utility>

#include "kernels/base/clock.h"

namespace quire {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

Watchdog::Watchdog(absl::Duration limit, std::function<void()> on_hung)
    : limit_(limit), on_hung_(std::move(on_hung)) {
  if (limit < absl::InfiniteDuration()) thread_ = std::thread([this] { Run(); });
}

Watchdog::~Watchdog() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    stopped_.Signal();
  }
  BeginRound();  // wakes a thread that sleeps because the engine rests
  thread_.join();
}

void Watchdog::BeginRound() {
  const int64_t before = round_begin_ns_.exchange(Clock::now().time_since_epoch().count());
  if (before == kResting) round_begin_ns_.notify_one();
}

void Watchdog::Rest() { round_begin_ns_.store(kResting); }

bool Watchdog::Stopping() {
  absl::MutexLock lock(&mutex_);
  return stopping_;
}

void Watchdog::Run() {
  pthread_setname_np(pthread_self(), "quire-watchdog");
  int64_t watched = kResting;  // the round that `deadline` belongs to
  Clock::time_point deadline;
  while (true) {
    round_begin_ns_.wait(kResting);
    if (Stopping()) return;
    const int64_t round = round_begin_ns_.load();
    if (round == kResting) continue;
    if (round != watched) {
      watched = round;
      deadline = Clock::time_point(Clock::duration(round)) + absl::ToChronoNanoseconds(limit_);
    } else if (Clock::now() - deadline > absl::ToChronoNanoseconds(limit_ / 8)) {
      // So late that the whole process must have been stopped (a debugger, SIGSTOP, a suspended
      // machine), and the round's time with it.
      deadline = Clock::now() + absl::ToChronoNanoseconds(limit_);
    } else if (Clock::now() >= deadline) {
      on_hung_();
      return;
    }
    absl::MutexLock lock(&mutex_);
    const absl::Time at = MonotonicNow() + absl::FromChrono(deadline - Clock::now());
    stopped_.Await(&mutex_, at, [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_; });
  }
}

}  // namespace quire
