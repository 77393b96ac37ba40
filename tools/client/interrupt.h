// Ctrl-C while a call is under way.
#pragma once

#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

namespace quire::client {

// While one lives, SIGINT does not end the process but runs `on_interrupt` on a thread of this
// object (so `on_interrupt` may do things that a signal handler may not). One at a time in a
// process; afterwards SIGINT does again what it did before. Main thread.
class InterruptGuard {
 public:
  explicit InterruptGuard(std::function<void()> on_interrupt);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool interrupted() const { return interrupted_; }

 private:
  void Watch(const std::function<void()>& on_interrupt);

  std::atomic<bool> interrupted_ = false;
  struct sigaction previous_ = {};
  std::thread watcher_;
};

// While one lives, SIGINT does nothing, except where an InterruptGuard lives too.
class InterruptsIgnored {
 public:
  InterruptsIgnored();
  ~InterruptsIgnored();
  InterruptsIgnored(const InterruptsIgnored&) = delete;
  InterruptsIgnored& operator=(const InterruptsIgnored&) = delete;

 private:
  struct sigaction previous_ = {};
};

}  // namespace quire::client
