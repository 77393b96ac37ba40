// SIGINT and SIGTERM. During a measurement the first signal asks it to stop, so that its results so
// far are kept. At any other time, and for the second signal, the process removes files that it has
// begun on disk, and ends at once with exit code 130.
#pragma once

#include <atomic>
#include <functional>

namespace quire::bench {

// Blocks both signals in this thread and in all threads that it starts, and gives them to a
// separate thread. Call it once, in main, before any other thread starts.
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

// Removes something that must not outlive this object. `clean_up` runs when the object ends, unless
// Keep() was called before. It also runs on the signals' thread before the process ends at once. It
// must not wait for the thread that owns the object.
class ExitCleanup {
 public:
  explicit ExitCleanup(std::function<void()> clean_up);
  ~ExitCleanup();  // waits for a clean_up that is under way
  void Keep() { is_kept_ = true; }
  void Run() const;  // unless it is kept
  ExitCleanup(const ExitCleanup&) = delete;
  ExitCleanup& operator=(const ExitCleanup&) = delete;

 private:
  std::function<void()> clean_up_;
  std::atomic<bool> is_kept_ = false;
};

}  // namespace quire::bench
