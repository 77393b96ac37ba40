// SIGINT and SIGTERM: while something is measured, the first one asks it to stop, so that what was
// measured so far is kept; at any other time, and the second time, the process ends at once with
// exit code 130, after what it had begun on disk is removed.
#pragma once

#include <atomic>
#include <functional>

namespace quire::bench {

// Blocks both signals in this thread and all that it starts, and gives them to a thread of their
// own. Once, in main, before any other thread.
void WatchSignals();

// While one of these lives, the first signal only sets Interrupted(). Main thread; not nested.
class InterruptibleRun {
 public:
  InterruptibleRun();
  ~InterruptibleRun();
  InterruptibleRun(const InterruptibleRun&) = delete;
  InterruptibleRun& operator=(const InterruptibleRun&) = delete;
};

// Whether a signal has come during an InterruptibleRun; stays true. Any thread.
bool Interrupted();

// Removes what must not outlive this: `clean_up` runs when this ends, unless Keep() was called
// before, and on the signals' thread before the process ends at once. It must not wait for the
// thread that owns this.
class ExitCleanup {
 public:
  explicit ExitCleanup(std::function<void()> clean_up);
  ~ExitCleanup();  // waits for one that is under way
  void Keep() { is_kept_ = true; }
  void Run() const;  // unless it is kept
  ExitCleanup(const ExitCleanup&) = delete;
  ExitCleanup& operator=(const ExitCleanup&) = delete;

 private:
  std::function<void()> clean_up_;
  std::atomic<bool> is_kept_ = false;
};

}  // namespace quire::bench
