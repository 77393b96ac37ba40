// WorkPool: a few threads and a bounded queue for work that is too long for a transport's thread
// (tokenizing long prompts). Add from any thread; the destructor runs what is queued and joins.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace quire {

class WorkPool {
 public:
  WorkPool(int num_threads, size_t max_queued);
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // False when the queue is full: `work` will not run.
  bool Add(std::function<void()> work);

 private:
  void Run();

  const size_t max_queued_;
  std::mutex mutex_;
  std::condition_variable added_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace quire
