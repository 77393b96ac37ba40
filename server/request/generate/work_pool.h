// WorkPool: a few threads and a bounded queue for work that is too long for a transport's thread
// (tokenizing long prompts). Cancelled work leaves the queue at once, and after Close nothing waits
// any more. No account may fill the queue: its waiting work is at most three times what it leaves
// free, in number and in bytes, as in scheduler/queue_bounds.h. Large work is done one piece at a
// time, because parsing takes many times its bytes, however many threads there are. Any thread. The
// destructor closes the pool and waits for the work that is under way.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "kernels/base/clock.h"
#include "server/base/time_budget.h"
#include "server/request/cancel_token.h"

namespace quire {

class WorkPool {
 public:
  struct Work {
    size_t num_bytes = 0;  // of memory that it holds while it waits
    // Cancelling it ends the work while the work waits: Add binds it. Not null.
    std::shared_ptr<CancelToken> token;
    // Charged with the work's time on a thread of the pool. The pool does not begin the work while
    // the account is in debt. Null: nobody pays.
    std::shared_ptr<CallCost> cost;
    // Called exactly once. With OK: on a thread of the pool, to do the work. Otherwise the work
    // will not be done, because of CANCELLED, RESOURCE_EXHAUSTED with retry advice or UNAVAILABLE;
    // then the thread that caused the error calls this, perhaps within Add.
    std::function<void(const absl::Status&)> run;
  };

  WorkPool(int num_threads, size_t max_queued, size_t max_queued_bytes);
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  void Add(Work work);

  // Waiting and later work gets UNAVAILABLE. Work under way goes on.
  void Close();

 private:
  // Lives on while a token still knows it.
  class Queue {
   public:
    Queue(size_t max_work, size_t max_bytes) : max_work_(max_work), max_bytes_(max_bytes) {}
    // An error leaves `work` as it was.
    absl::Status Push(uint64_t id, Work* work);
    // The next work that may begin, once there is some; nothing once the queue is closed. Done says
    // that it has ended.
    std::optional<Work> Pop();
    void Done(size_t num_bytes);
    // Ends the work that still waits under this id.
    void Cancel(uint64_t id);
    void Close();

   private:
    // The waiting work of one account.
    struct Load {
      size_t num_work = 0;
      size_t num_bytes = 0;
    };

    bool Fits(const Work& work) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
    // The oldest work that may begin, or the end; then `*look_again` is the time when work may
    // begin.
    std::map<uint64_t, Work>::iterator FindReady(absl::Time* look_again)
        ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
    Work Take(std::map<uint64_t, Work>::iterator place) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

    const size_t max_work_;
    const size_t max_bytes_;
    absl::Mutex mutex_;
    MonotonicCondVar news_;
    absl::flat_hash_map<const TimeAccount*, Load> loads_ ABSL_GUARDED_BY(mutex_);
    std::map<uint64_t, Work> waiting_ ABSL_GUARDED_BY(mutex_);  // by id: the oldest first
    size_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;              // of all waiting work
    bool is_large_under_way_ ABSL_GUARDED_BY(mutex_) = false;
    bool is_closed_ ABSL_GUARDED_BY(mutex_) = false;
  };

  const std::shared_ptr<Queue> queue_;
  std::atomic<uint64_t> num_added_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace quire
