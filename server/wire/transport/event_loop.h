// EventLoop: one thread that watches descriptors, and runs timers and the work that other threads
// post to it. Everything about a connection happens on its loop's thread, so connections have no
// locks.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "kernels/base/clock.h"
#include "server/base/time_budget.h"
#include "server/wire/transport/unique_fd.h"

namespace quire {

class EventLoop {
 public:
  using Work = absl::AnyInvocable<void()>;
  using WatchId = uint64_t;
  using TimerId = std::pair<absl::Time, uint64_t>;

  // The owner of a descriptor, which is told that it is ready. May unwatch and destroy itself
  // meanwhile.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void OnReady(uint32_t epoll_events) = 0;
  };

  // Starts the thread. UNAVAILABLE when the process has no descriptor left, or may have no more
  // threads.
  static absl::StatusOr<std::unique_ptr<EventLoop>> Start(std::string thread_name);
  // Calls Stop, if nobody has.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  // Runs `work` on the loop's thread, in the order of posting. Dropped after Stop. Any thread; from
  // the loop's own it costs no system call.
  void Post(Work work);
  // Ends the thread after the work that was posted before. Any other thread.
  void Stop();

  // The rest is for the loop's thread.

  // Level-triggered. Nothing when the system has no memory or no watch left. An invalid descriptor
  // fails a CHECK.
  std::optional<WatchId> Watch(int fd, uint32_t epoll_events, Watcher* watcher);
  // False for the same reasons; the watch stays as it was.
  bool ChangeWatch(WatchId id, int fd, uint32_t epoll_events);
  void EndWatch(WatchId id, int fd);

  // Runs `work` at that time or soon after it.
  TimerId AddTimer(absl::Time when, Work work);
  void CancelTimer(const TimerId& id) { timers_.erase(id); }

  // Runs `work`, which serves the address of that account. The account pays for the work, and for
  // its share of the other costs of the turn.
  template <typename ForAddress>
  void RunFor(const std::shared_ptr<TimeAccount>& account, ForAddress&& work) {
    const size_t place = payers_.size();
    payers_.emplace_back(account, 1.0);
    const absl::Time begin = MonotonicNow();
    work();
    payers_[place].second += std::max(0.0, absl::ToDoubleNanoseconds(MonotonicNow() - begin));
  }

  // Runs `work` after everything that is ready or posted now.
  void AtEndOfTurn(Work work) { end_of_turn_.push_back(std::move(work)); }

  // The time at which this turn began.
  absl::Time now() const { return now_; }
  // Room for one read or write, for the connection whose turn it is.
  absl::Span<char> scratch() { return absl::MakeSpan(scratch_); }
  // Likewise, for output.
  std::string& output() { return output_; }

 private:
  explicit EventLoop(std::string thread_name);
  void Run();
  void RunTurn();
  void RunPosted();
  void RunTimers();
  void ChargeTurn();
  int TimeoutMs() const;
  bool Control(int operation, WatchId id, int fd, uint32_t epoll_events);

  const std::string thread_name_;
  UniqueFd epoll_;
  UniqueFd wake_;  // eventfd: something was posted
  std::vector<char> scratch_;
  std::string output_;
  absl::Time now_;
  uint64_t next_id_ = 1;  // of watches and timers; 0 is wake_'s
  absl::flat_hash_map<WatchId, Watcher*> watchers_;
  absl::btree_map<TimerId, Work> timers_;
  std::vector<Work> end_of_turn_;
  // The accounts that this turn served, and for how long by the clock.
  std::vector<std::pair<std::shared_ptr<TimeAccount>, double>> payers_;
  double charged_seconds_ = 0;  // of the thread, up to this turn
  bool has_own_posts_ = false;  // the thread has posted to itself: it must not sleep
  bool ended_ = false;          // the thread has seen stopping_

  absl::Mutex mutex_;
  std::vector<Work> posted_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace quire
