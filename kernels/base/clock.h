// The two clocks, and waiting by the right one. A change of the machine's clock moves neither a
// deadline nor a measured time: everything that waits or measures uses MonotonicNow. Abseil's locks
// wait by the clock on the wall, so code that waits with a deadline uses MonotonicCondVar;
// tools/lint/check_layers.py checks that. Any thread.
#pragma once

#include <condition_variable>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace quire {

// Shows what the clock on the wall showed when this was first asked, and the time that has passed
// since: it never steps. For deadlines, lengths and order.
absl::Time MonotonicNow();

// The time as people and other machines know it, which may step at any moment. Only for stamps in
// logs and answers.
absl::Time WallNow();

// A moment of MonotonicNow's on the clock on the wall, as that clock is set now.
absl::Time ToWallTime(absl::Time moment);

// A condition variable whose deadlines are MonotonicNow's. Code that changes what another thread
// waits for must signal.
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
