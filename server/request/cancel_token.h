// CancelToken: lets a request be cancelled at any moment of its life, also before the engine knows
// it. Shared by the transport (client gone, deadline), Admin.Abort and the handler. Any thread.
#pragma once

#include <functional>
#include <mutex>

namespace quire {

class CancelToken {
 public:
  // Runs what Bind gave, at once or when it is given.
  void Cancel() {
    std::function<void()> action;
    {
      std::lock_guard lock(mutex_);
      cancelled_ = true;
      action = std::move(action_);
      action_ = nullptr;
    }
    if (action) action();
  }

  // What cancelling means from now on; runs at once if Cancel has already been called.
  void Bind(std::function<void()> action) {
    {
      std::lock_guard lock(mutex_);
      if (!cancelled_) {
        action_ = std::move(action);
        return;
      }
    }
    action();
  }

  bool cancelled() const {
    std::lock_guard lock(mutex_);
    return cancelled_;
  }

 private:
  mutable std::mutex mutex_;
  bool cancelled_ = false;
  std::function<void()> action_;
};

}  // namespace quire
