// LiveCalls: how many calls have not come to their end yet, so that connections are closed only
// after every client could be told how its call ended. Any thread.
#pragma once

#include <chrono>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/base/clock.h"

namespace quire {

class LiveCalls {
 public:
  // Counts one call for as long as it lives.
  class Call {
   public:
    explicit Call(LiveCalls* calls) : calls_(calls) { calls_->Add(1); }
    ~Call() { calls_->Add(-1); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    LiveCalls* const calls_;
  };

  // Waits for a moment without calls; false when the deadline came first.
  bool WaitUntilNone(absl::Time deadline) {
    absl::MutexLock lock(&mutex_);
    const auto is_none = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return count_ == 0; };
    return ended_.Await(&mutex_, deadline, is_none);
  }

 private:
  void Add(int64_t change) {
    absl::MutexLock lock(&mutex_);
    count_ += change;
    if (count_ == 0) ended_.SignalAll();
  }

  absl::Mutex mutex_;
  MonotonicCondVar ended_;  // the last call
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace quire
