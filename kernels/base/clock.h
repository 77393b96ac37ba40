// The two clocks, and waiting by the right one. Whoever sets the machine's clock moves neither a
// deadline nor a measured time: everything that waits or measures does so by MonotonicNow. Abseil's
// locks wait by the clock on the wall, so who waits with a deadline does so by MonotonicCondVar;
// tools/lint/check_layers.py sees to that. Any thread.
#pragma once

#include <condition_variable>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace quire {

// Shows what the clock on the wall showed when this was first asked, and the time that has passed
// since: it never steps. For deadlines, lengths and order.
absl::Time MonotonicNow();

// What people and other machines call the time, which may step at any moment. For stamps in logs
// and answers alone.
absl::Time WallNow();

// What the clock on the wall, as it is set now, shows at a moment of MonotonicNow's.
absl::Time ToWallTime(absl::Time moment);

// A condition variable whose deadlines are MonotonicNow's. Whoever changes what another waits for
// signals.
class MonotonicCondVar {
 public:
  void Signal() { condition_.notify_one(); }
  void SignalAll() { condition_.notify_all(); }

  // May also return without a signal.
  void Wait(absl::Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    WaitUntil(mutex, absl::InfiniteFuture());
  }
  // Returns at the deadline at the latest.
  void WaitUntil(absl::Mutex* mutex, absl::Time deadline) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);

  // Waits until `is_true`; false when the deadline came first. The analysis cannot know that the
  // mutex which the predicate asks for is this one.
  template <typename Predicate>
  bool Await(absl::Mutex* mutex, absl::Time deadline, Predicate is_true)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    while (!is_true()) {
      if (MonotonicNow() >= deadline) return false;
      WaitUntil(mutex, deadline);
    }
    return true;
  }

 private:
  std::condition_variable_any condition_;
};

}  // namespace quire
