// ThreadPool: the threads that compute on the CPU backend. The calling thread takes part; workers
// look for more to do for some microseconds, then sleep. One caller at a time (the stream's
// thread).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/functional/function_ref.h"

namespace quire::cpu {

class ThreadPool {
 public:
  // `num_threads` threads in all, the caller's included; 1 = everything inline.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Calls fn(begin, end, thread_index) over [0, num_items) in ranges of `grain` items, handed out
  // dynamically; returns when all are done. Runs inline when there is one range or one thread.
  using RangeFn = absl::FunctionRef<void(int64_t begin, int64_t end, int thread_index)>;
  void ParallelFor(int64_t num_items, int64_t grain, RangeFn fn);

 private:
  struct Impl;
  int num_threads_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace quire::cpu
