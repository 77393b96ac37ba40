// Watchdog: tells when the engine's thread has made no progress for too long, wherever it hangs: in
// a wait for the device, in a launch, in a loop. That thread says when a round begins and when it
// rests; the watchdog's own thread sleeps until the last round could be overdue, and altogether
// while the engine rests.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/base/clock.h"

namespace quire {

class Watchdog {
 public:
  // `on_hung` is called at most once, from the watchdog's thread, when a round has not ended after
  // `limit`, which may be infinite: then there is no such thread. Nothing is watched before the
  // first BeginRound.
  Watchdog(absl::Duration limit, std::function<void()> on_hung);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  // The engine's thread: a round begins, and with it the one before has ended.
  void BeginRound();
  // The engine's thread: it is about to wait for work, however long that takes.
  void Rest();

 private:
  static constexpr int64_t kResting = 0;

  void Run();
  bool Stopping();

  const absl::Duration limit_;
  const std::function<void()> on_hung_;
  std::atomic<int64_t> round_begin_ns_{kResting};  // steady clock
  absl::Mutex mutex_;
  MonotonicCondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // the last member: it uses all others
};

}  // namespace quire
