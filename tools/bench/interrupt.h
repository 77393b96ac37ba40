// SIGINT and SIGTERM: while something is measured, the first one asks it to stop, so that what was
// measured so far is kept; at any other time, and the second time, the process ends at once with
// exit code 130, after what it had begun on disk is removed.
#pragma once

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

// What is done, on the signals' thread, before the process ends at once. Must not wait for the
// thread that owns this.
class ExitCleanup {
 public:
  explicit ExitCleanup(std::function<void()> clean_up);
  ~ExitCleanup();  // no longer needed; waits for one that is under way
  ExitCleanup(const ExitCleanup&) = delete;
  ExitCleanup& operator=(const ExitCleanup&) = delete;

 private:
  std::function<void()> clean_up_;
};

}  // namespace quire::bench
