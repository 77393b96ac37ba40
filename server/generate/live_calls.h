// LiveCalls: how many calls have not been finished by gRPC yet, so that connections are closed only
// after every client could be told how its call ended. Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "absl/time/time.h"

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
    std::unique_lock lock(mutex_);
    return none_.wait_until(lock, absl::ToChronoTime(deadline), [this] { return count_ == 0; });
  }

 private:
  void Add(int64_t change) {
    std::lock_guard lock(mutex_);
    count_ += change;
    if (count_ == 0) none_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable none_;
  int64_t count_ = 0;
};

}  // namespace quire
