// CancelToken: lets a request be cancelled at any moment of its life, also before the engine knows
// it. Shared by the transport (client gone, deadline), Admin.Abort and the handler. Any thread.
#pragma once

#include <atomic>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace quire {

class CancelToken {
 public:
  // Runs what Bind gave, at once or when it is given.
  void Cancel() {
    std::function<void()> action;
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      action = std::move(action_);
      action_ = nullptr;
    }
    if (action) action();
  }

  // What cancelling means from now on; runs at once if Cancel has already been called.
  void Bind(std::function<void()> action) {
    {
      absl::MutexLock lock(&mutex_);
      if (!cancelled_) {
        action_ = std::move(action);
        return;
      }
    }
    action();
  }

  bool cancelled() const { return cancelled_; }
  // The same for a loop that looks often (Fuel); lives as long as this.
  const std::atomic<bool>& flag() const { return cancelled_; }

 private:
  absl::Mutex mutex_;
  std::atomic<bool> cancelled_ = false;  // set under the mutex
  std::function<void()> action_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quire
