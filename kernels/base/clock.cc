#include "kernels/base/clock.h"

#include <algorithm>
#include <chrono>

#include "absl/time/clock.h"

namespace quire {

namespace {

using Steady = std::chrono::steady_clock;

// How far the clock on the wall is ahead of the steady one, which counts from some moment. Asked
// until both were read in one go.
absl::Duration WallLead() {
  constexpr absl::Duration kOneGo = absl::Microseconds(50);
  constexpr int kMaxTries = 10;
  absl::Duration lead;
  for (int i = 0; i < kMaxTries; ++i) {
    const Steady::duration before = Steady::now().time_since_epoch();
    lead = absl::Now() - absl::UnixEpoch() - absl::FromChrono(before);
    if (absl::FromChrono(Steady::now().time_since_epoch() - before) < kOneGo) break;
  }
  return lead;
}

absl::Duration FirstWallLead() {
  static const absl::Duration lead = WallLead();
  return lead;
}

// The adapter that std::condition_variable_any unlocks and locks.
class BasicLock {
 public:
  explicit BasicLock(absl::Mutex* mutex) : mutex_(mutex) {}
  void lock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_->Lock(); }
  void unlock() ABSL_NO_THREAD_SAFETY_ANALYSIS { mutex_->Unlock(); }

 private:
  absl::Mutex* const mutex_;
};

}  // namespace

absl::Time MonotonicNow() {
  return absl::UnixEpoch() + FirstWallLead() + absl::FromChrono(Steady::now().time_since_epoch());
}

absl::Time WallNow() { return absl::Now(); }

// In milliseconds: less is the two clocks' reading, not a step.
absl::Time ToWallTime(absl::Time moment) {
  return moment + absl::Trunc(WallLead() - FirstWallLead(), absl::Milliseconds(1));
}

void MonotonicCondVar::WaitUntil(absl::Mutex* mutex, absl::Time deadline) {
  BasicLock lock(mutex);
  const absl::Duration left = deadline - MonotonicNow();
  // Longer waits than this end early, as any may.
  constexpr absl::Duration kLongest = absl::Hours(24);
  if (left == absl::InfiniteDuration()) {
    condition_.wait(lock);
  } else if (left > absl::ZeroDuration()) {
    condition_.wait_until(lock,
                          Steady::now() + absl::ToChronoNanoseconds(std::min(left, kLongest)));
  }
}

}  // namespace quire
