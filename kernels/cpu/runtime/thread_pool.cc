#include "kernels/cpu/runtime/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/base/types.h"

namespace quire::cpu {

namespace {

// How long a thread looks for what comes next before it sleeps. A layer's operations follow one
// another within microseconds, and waking a thread takes longer than most of them; much more would
// take processors from other threads for nothing.
constexpr std::chrono::microseconds kMaxSpin{40};

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Until done() or for kMaxSpin.
template <typename Done>
void Spin(const Done& done) {
  constexpr int kPausesPerLook = 16;
  const auto give_up = std::chrono::steady_clock::now() + kMaxSpin;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (done()) return;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < give_up);
}

// One ParallelFor. Lives on the caller's stack: a worker joins and leaves it under the pool's
// mutex, and the caller returns only when nobody is inside.
struct Job {
  ThreadPool::RangeFn fn;
  int64_t num_items;
  int64_t grain;
  std::atomic<int64_t> next{0};

  void RunRanges(int thread_index) {
    for (;;) {
      const int64_t begin = next.fetch_add(grain, std::memory_order_relaxed);
      if (begin >= num_items) return;
      fn(begin, std::min(begin + grain, num_items), thread_index);
    }
  }
};

}  // namespace

struct ThreadPool::Impl {
  std::mutex mutex;
  std::condition_variable work;  // a job was posted, or the pool is closing
  std::condition_variable left;  // the last worker left the job
  Job* job = nullptr;            // null when there is nothing left to join
  // Written under the mutex, looked at without it by those who spin.
  std::atomic<uint64_t> num_jobs{0};  // so that a worker joins each job once
  std::atomic<int> num_inside{0};     // workers inside the current job
  bool closing = false;
  std::atomic<bool> in_use{false};
  std::vector<std::thread> workers;

  void WorkerLoop(int thread_index) {
    pthread_setname_np(pthread_self(), "quire-compute");
    uint64_t last_job = 0;
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      lock.unlock();
      Spin([&] { return num_jobs.load(std::memory_order_relaxed) != last_job; });
      lock.lock();
      work.wait(lock, [&] { return closing || (job != nullptr && num_jobs != last_job); });
      if (closing) return;
      last_job = num_jobs;
      Job* joined = job;
      ++num_inside;
      lock.unlock();
      joined->RunRanges(thread_index);
      lock.lock();
      if (--num_inside == 0) left.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int num_threads)
    : num_threads_(num_threads), impl_(std::make_unique<Impl>()) {
  CHECK_GE(num_threads, 1);
  for (int i = 1; i < num_threads; ++i) {
    impl_->workers.emplace_back([this, i] { impl_->WorkerLoop(i); });
  }
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(impl_->mutex);
    impl_->closing = true;
  }
  impl_->work.notify_all();
  for (std::thread& worker : impl_->workers) worker.join();
}

void ThreadPool::ParallelFor(int64_t num_items, int64_t grain, RangeFn fn) {
  CHECK_GE(grain, 1);
  if (num_items <= 0) return;
  const int64_t num_ranges = CeilDiv(num_items, grain);
  if (num_ranges == 1 || num_threads_ == 1) {
    fn(0, num_items, 0);
    return;
  }
  CHECK(!impl_->in_use.exchange(true, std::memory_order_acquire))
      << "ThreadPool::ParallelFor called from two threads, or from inside itself";
  Job job{fn, num_items, grain};
  {
    std::lock_guard<std::mutex> lock(impl_->mutex);
    impl_->job = &job;
    ++impl_->num_jobs;
  }
  const int64_t num_helpers = std::min<int64_t>(num_threads_, num_ranges) - 1;
  for (int64_t i = 0; i < num_helpers; ++i) impl_->work.notify_one();
  job.RunRanges(0);
  {
    // From here on no worker can join: one that wakes only now is not waited for.
    std::unique_lock<std::mutex> lock(impl_->mutex);
    impl_->job = nullptr;
    if (impl_->num_inside != 0) {
      lock.unlock();
      Spin([&] { return impl_->num_inside.load(std::memory_order_acquire) == 0; });
      lock.lock();
      impl_->left.wait(lock, [&] { return impl_->num_inside == 0; });
    }
  }
  impl_->in_use.store(false, std::memory_order_release);
}

}  // namespace quire::cpu
