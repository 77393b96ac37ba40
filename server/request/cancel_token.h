// CancelToken: lets a request be cancelled at any moment of its life, also before the engine knows
// it. Shared by the transport (client gone, deadline), Admin.Abort and the handler. Any thread.
#pragma once

#include <atomic>
#include <functional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace quire {

class CancelToken {
 public:
  // Ends the request; its client listens, and hears how it ended. Runs the function that Bind gave,
  // at once or when it is given.
  void Cancel() { End(/*nobody_listens=*/false); }

  // The same, but nobody listens any more: everything that is made for the client is made in vain.
  void Abandon() { End(/*nobody_listens=*/true); }

  // Sets what Cancel and Abandon run from now on; runs it at once if one was called already.
  // Without `on_abandon`, Abandon runs what Cancel runs.
  void Bind(std::function<void()> on_cancel, std::function<void()> on_abandon = nullptr) {
    std::function<void()> action;
    {
      absl::MutexLock lock(&mutex_);
      on_cancel_ = std::move(on_cancel);
      on_abandon_ = std::move(on_abandon);
      if (cancelled_) action = TakeAction();
    }
    if (action) action();
  }

  bool cancelled() const { return cancelled_; }
  // The same for a loop that looks often (Fuel); lives as long as this.
  const std::atomic<bool>& flag() const { return cancelled_; }

 private:
  void End(bool nobody_listens) {
    std::function<void()> action;
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      is_abandoned_ |= nobody_listens;
      action = TakeAction();
    }
    if (action) action();
  }

  // Gives each function once.
  std::function<void()> TakeAction() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    std::function<void()> on_cancel = std::exchange(on_cancel_, nullptr);
    if (!is_abandoned_) return on_cancel;
    std::function<void()> on_abandon = std::exchange(on_abandon_, nullptr);
    return on_abandon ? on_abandon : on_cancel;
  }

  absl::Mutex mutex_;
  std::atomic<bool> cancelled_ = false;  // set under the mutex
  bool is_abandoned_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> on_cancel_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> on_abandon_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace quire
